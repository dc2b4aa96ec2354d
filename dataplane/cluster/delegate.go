package cluster

import (
	"github.com/hashicorp/memberlist"

	"github.com/weirstream/weir/dataplane/job"
)

// delegate is what memberlist calls. Its methods run while memberlist holds its node lock: they must not
// block and must not call memberlist.
type delegate struct{ c *Cluster }

var (
	_ memberlist.Delegate      = delegate{}
	_ memberlist.EventDelegate = delegate{}
	_ memberlist.AliveDelegate = delegate{}
)

// NodeMeta implements memberlist.Delegate. That the metadata fits was checked at Join; only numbers of
// bounded size change afterwards, and encode checks again.
func (d delegate) NodeMeta(int) []byte {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	b, err := d.c.mu.meta.encode()
	if err != nil {
		d.c.log.Error("announce this node", "error", err)
		return nil
	}
	return b
}

// NotifyAlive implements memberlist.AliveDelegate: a process whose metadata is not ours is no member.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	_, err := decodeMetadata(n.Meta)
	return err
}

// NotifyJoin implements memberlist.EventDelegate.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.put(n) }

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.put(n) }

// put takes over what a member says of itself. This process's own word counts from the moment it is given
// (see Cluster.change), so an echo of an older one is not taken.
func (d delegate) put(n *memberlist.Node) {
	meta, err := decodeMetadata(n.Meta)
	if err != nil {
		d.c.log.Warn("ignored a member with bad metadata", "member", n.Name, "addr", n.Address(), "error", err)
		return
	}
	id := job.NodeID(n.Name)
	if id == d.c.members.self {
		d.c.mu.Lock()
		defer d.c.mu.Unlock()
		d.c.members.put(id, n.Address(), d.c.mu.meta)
		return
	}
	switch before, now := d.c.members.put(id, n.Address(), meta); {
	case before == Left || before == Lost:
		d.c.log.Info("node joined", "member", n.Name, "addr", n.Address(), "exchange", meta.Exchange, "slots", meta.Slots)
	case before != now && now == Leaving:
		d.c.log.Info("node is leaving", "member", n.Name, "addr", n.Address())
	}
}

// NotifyLeave implements memberlist.EventDelegate.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	how, known := d.c.members.drop(job.NodeID(n.Name))
	switch {
	case !known || job.NodeID(n.Name) == d.c.members.self:
	case how == Left:
		d.c.log.Info("node left", "member", n.Name, "addr", n.Address())
	default:
		d.c.log.Warn("node lost", "member", n.Name, "addr", n.Address())
	}
}

// NotifyMsg implements memberlist.Delegate; Weir sends no messages by gossip.
func (delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (delegate) MergeRemoteState([]byte, bool) {}
