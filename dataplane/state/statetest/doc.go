// Package statetest is the conformance suite of keyed state: every backend passes Run. Store is an in-memory
// place for checkpoint files, for the suite and for tests of operators.
package statetest
