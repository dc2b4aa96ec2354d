// Package connectortest has the conformance suites that every source and every transactional sink passes.
package connectortest
