// Package crash kills workers at every step of the protocol that a fail point names, and checks that the job
// recovers to equality: a read-committed reader is shown every record once, in order, and no transaction stays
// open. The brokers are an in-process Kafka, so that a case takes seconds; what that lacks (states of a
// transaction in preparation, a restart on its data) is the matter of the tests on real parts.
package crash
