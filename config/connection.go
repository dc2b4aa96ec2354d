package config

// Connection is a named way to a system.
type Connection struct {
	Name  string
	At    Place
	Kafka *KafkaConnection
}

// KafkaConnection is how to reach a Kafka cluster.
type KafkaConnection struct {
	Brokers []Ref
	// TLS is nil for plain text.
	TLS *TLS
	// SASL is nil for no authentication.
	SASL *SASL
}

// TLS are the certificates of a connection. CA, Cert and Key are files on the node, or PEM text by reference.
type TLS struct {
	CA         Ref
	Cert       Ref
	Key        Ref
	ServerName Ref
	// SkipVerify turns off the check of the server's certificate.
	SkipVerify bool
}

// Mechanism is a SASL mechanism.
type Mechanism string

// The mechanisms.
const (
	Plain       Mechanism = "plain"
	ScramSHA256 Mechanism = "scram-sha-256"
	ScramSHA512 Mechanism = "scram-sha-512"
)

// SASL is how a connection authenticates.
type SASL struct {
	Mechanism Mechanism
	User      Ref
	Password  Secret
}
