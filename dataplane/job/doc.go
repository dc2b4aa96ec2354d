// Package job holds the vocabulary that every other package shares: identifiers, key groups, the job
// graph, placement of slots on nodes, the gate that fences old attempts, and the classification of errors.
//
// It is pure: no clock, no goroutine, no I/O, no randomness. Workflows import it.
package job
