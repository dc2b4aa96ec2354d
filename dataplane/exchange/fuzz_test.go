package exchange

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/weirstream/weir/dataplane/batch"
	"github.com/weirstream/weir/dataplane/job"
)

// Whatever a connection delivers, the reader returns frames that are sealed as they claim, or an error.
func FuzzFrameReader(f *testing.F) {
	f.Add(rawFrame(header{typ: batchFrame, channel: testChannel, seq: 3}, batch.AppendBatch(nil, numbers(0, 3))))
	f.Add(append(rawFrame(header{typ: heartbeatFrame}, nil), rawFrame(header{typ: endFrame, channel: testChannel}, nil)...))
	f.Add(rawFrame(header{typ: goodbyeFrame}, controlPayload(goodbye{Why: "stopped"})))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in := &frameReader{r: bytes.NewReader(stream)}
		in.expect(testRef)
		for at := 0; ; {
			h, payload, err := in.next()
			if err != nil {
				return
			}
			end := at + headerSize + len(payload)
			if got := rawFrame(h, payload); !bytes.Equal(got, stream[at:end]) {
				t.Fatalf("frame read as %+v, sealed again\n%x, was\n%x", h, got, stream[at:end])
			}
			at = end
		}
	})
}

// Whatever a well-sealed frame holds, delivering it is harmless.
func FuzzDeliver(f *testing.F) {
	f.Add(byte(batchFrame), true, batch.AppendBatch(nil, numbers(0, 3)))
	f.Add(byte(barrierFrame), true, controlPayload(barrierElement(3).Barrier))
	f.Add(byte(creditFrame), false, appendGrant(nil, grant{channel: job.Channel{Edge: 7}, elements: 3, bytes: 100}))
	f.Add(byte(announceFrame), false, controlPayload(barrierElement(3).Barrier))
	f.Add(byte(goodbyeFrame), false, controlPayload(goodbye{Why: "stopped", Lost: "c"}))
	f.Add(byte(declineFrame), false, controlPayload(decline{*barrierElement(3).Barrier, "no room"}))
	f.Fuzz(func(t *testing.T, typ byte, known bool, payload []byte) {
		s := &Server{self: "b", log: slog.New(slog.DiscardHandler)}
		s.mu.changed = make(chan struct{})
		cfg := MeshConfig{Ref: testRef, Nodes: []job.NodeSlot{{Node: "a"}, {Node: "b"}}, Channels: []ChannelSpec{
			{Channel: testChannel, FromNode: "a", ToNode: "b", Schema: testSchema},
			{Channel: job.Channel{Edge: 7}, FromNode: "b", ToNode: "a", Schema: testSchema},
		}}
		m := newMesh(s, cfg)
		g, err := m.Gate(testChannel)
		if err != nil {
			t.Fatal(err)
		}
		o, err := m.Output(job.Channel{Edge: 7})
		if err != nil {
			t.Fatal(err)
		}
		c := &conn{mesh: m, peer: "a", outputs: map[job.Channel]*Output{o.channel: o}, queues: m.queues}
		h := header{typ: frameType(typ)}
		if known {
			h.channel = testChannel
		}
		if err := c.deliver(h, payload); err == nil && h.typ.inChannel() && !g.Ready() {
			t.Errorf("a frame of type %d was accepted and not queued", typ)
		}
	})
}
