// Package plan turns a parsed job spec into a typed plan: columns and changelog modes of every step, which
// columns anybody reads, which filters a source can apply while it decodes, and the chains and channels of
// the job graph.
//
// Planning has three passes. Forward, every expression is typed against the full schema of its inputs and
// all mistakes are collected. Backward, the columns and the event time that nobody reads are dropped. Then
// the physical plan is built: operators that can run in one goroutine become one vertex.
//
// The result describes operators, it does not make them: the registry of implementations lies elsewhere, and
// streaming SQL or Go code can produce the same plan.
package plan
