package cluster

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/hashicorp/memberlist"
)

// metadata is what a member says of itself, as JSON in memberlist's node metadata (at most 512 bytes, hence
// the short keys). Unknown keys are ignored, so that later versions can add some.
type metadata struct {
	Exchange string `json:"x"`
	HTTP     string `json:"h,omitempty"`
	Slots    int    `json:"s"`
	Free     int    `json:"f"`
	Version  string `json:"v,omitempty"`
	// Leaving is set before a member leaves. Memberlist reports a member that left and one that died by the
	// same callback; this tells them apart.
	Leaving bool `json:"l,omitempty"`
}

// encode returns the JSON, or an error when it does not fit.
func (m metadata) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode member metadata: %w", err)
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("encode member metadata: %d bytes, at most %d fit; shorten the addresses", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

// decodeMetadata reads what a peer says of itself. The peer is not trusted to be well-formed: another
// memberlist cluster may live on the same network.
func decodeMetadata(b []byte) (metadata, error) {
	var m metadata
	if len(b) > memberlist.MetaMaxSize {
		return m, fmt.Errorf("decode member metadata: %d bytes, at most %d are allowed", len(b), memberlist.MetaMaxSize)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("decode member metadata: %w", err)
	}
	if err := checkAddr(m.Exchange); err != nil {
		return m, fmt.Errorf("decode member metadata: exchange address: %w", err)
	}
	if m.Slots < 0 || m.Free < 0 || m.Free > m.Slots {
		return m, fmt.Errorf("decode member metadata: %d free of %d slots", m.Free, m.Slots)
	}
	return m, nil
}

// checkAddr refuses an address that other nodes could not dial.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%q: other nodes cannot dial it; name a host", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: other nodes cannot dial port %q", addr, port)
	}
	return nil
}
