package exchange

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirstream/weir/dataplane/checkpoint"
	"github.com/weirstream/weir/dataplane/job"
)

// hello is what a dialler says of itself and of whom it means to reach.
type hello struct {
	job.Ref
	From   job.NodeID `json:"from"`
	To     job.NodeID `json:"to"`
	Digest string     `json:"digest"`
}

// refusalCode is why a handshake is refused.
type refusalCode string

const (
	refusedSuperseded refusalCode = "superseded"     // a higher attempt of the job is known here
	refusedUnknown    refusalCode = "unknown"        // the attempt was not deployed here in time
	refusedEnded      refusalCode = "ended"          // the attempt has ended here
	refusedWrongNode  refusalCode = "wrong node"     // another process listens at this address now
	refusedStranger   refusalCode = "not a peer"     // the attempt has no such node, or it may not dial
	refusedGraph      refusalCode = "other graph"    // the nodes compiled the spec to different graphs
	refusedTwice      refusalCode = "already joined" // the peer has, or had, a connection
	refusedBusy       refusalCode = "busy"           // too many handshakes wait
)

// refusal answers a hello.
type refusal struct {
	Code    refusalCode `json:"code"`
	Detail  string      `json:"detail,omitempty"`
	Highest job.Attempt `json:"highest,omitempty"` // with refusedSuperseded
}

// String returns code and detail.
func (r refusal) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Detail
}

// decline says that a node does not take part in a checkpoint.
type decline struct {
	Barrier checkpoint.Barrier `json:"barrier"`
	Why     string             `json:"why"`
}

// goodbye is a node's last word to its peers.
type goodbye struct {
	Why string `json:"why"`
	// Lost is the node whose loss ended the attempt here, if that is why.
	Lost job.NodeID `json:"lost,omitempty"`
}

// maxWhy bounds the text of a goodbye or decline.
const maxWhy = 4 << 10

func clipped(why string) string {
	if len(why) > maxWhy {
		return why[:maxWhy] + "…"
	}
	return why
}

// goodbyeFor says why an attempt ended with err.
func goodbyeFor(err error) goodbye {
	g := goodbye{Why: err.Error()}
	var lost *job.PeerLostError
	if errors.As(err, &lost) {
		g.Why, g.Lost = lost.Why, lost.Node
	}
	g.Why = clipped(g.Why)
	return g
}

// controlPayload is the JSON of a control message. The types here always marshal.
func controlPayload(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("exchange: marshal %T: %v", v, err))
	}
	return b
}

func decodeControl[T any](payload []byte) (T, error) {
	var v T
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, fmt.Errorf("message %T: %w", v, err)
	}
	return v, nil
}

// decodeBarrier reads a barrier, which must be of the connection's attempt.
func decodeBarrier(payload []byte, ref job.Ref) (*checkpoint.Barrier, error) {
	b, err := decodeControl[checkpoint.Barrier](payload)
	if err != nil {
		return nil, err
	}
	return &b, ofAttempt(b, ref)
}

func ofAttempt(b checkpoint.Barrier, ref job.Ref) error {
	if b.Ref != ref {
		return fmt.Errorf("message barrier: of attempt %s, the connection is attempt %s's", b.Ref, ref)
	}
	return nil
}

// grant gives the writer of a channel credit for so many more elements and bytes.
type grant struct {
	channel  job.Channel
	elements int
	bytes    int
}

const (
	grantSize = 20
	// maxGrants is how many grants fit into a credit frame.
	maxGrants = maxControl / grantSize
)

func appendGrant(dst []byte, g grant) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(g.channel.Edge))
	dst = le.AppendUint32(dst, uint32(g.channel.From))
	dst = le.AppendUint32(dst, uint32(g.channel.To))
	dst = le.AppendUint32(dst, uint32(g.elements))
	return le.AppendUint32(dst, uint32(g.bytes))
}

// eachGrant calls f for every grant of a credit frame.
func eachGrant(payload []byte, f func(grant) error) error {
	if len(payload)%grantSize != 0 {
		return fmt.Errorf("message credit: %d bytes are no multiple of %d", len(payload), grantSize)
	}
	le := binary.LittleEndian
	for ; len(payload) > 0; payload = payload[grantSize:] {
		g := grant{
			channel:  job.Channel{Edge: int(le.Uint32(payload)), From: int(le.Uint32(payload[4:])), To: int(le.Uint32(payload[8:]))},
			elements: int(le.Uint32(payload[12:])),
			bytes:    int(le.Uint32(payload[16:])),
		}
		if err := f(g); err != nil {
			return err
		}
	}
	return nil
}
