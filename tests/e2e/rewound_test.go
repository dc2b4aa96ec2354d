package e2e

import "time"

// rewound: a job whose workflow is reset, to its first task or to its last one, goes on by itself without loss or
// doubles, whatever it has forgotten.
func rewound(d day) {
	name := d.flowing("rewound")
	n := 1000
	for _, to := range []string{"LastWorkflowTask", "FirstWorkflowTask", "FirstWorkflowTask"} {
		before, err := d.Cluster.Status(name)
		if err != nil {
			d.Fatal(err)
		}
		began := time.Now()
		d.CLI("workflow", "reset", "--workflow-id", name, "--type", to, "--reason", "a bad day")
		produce(d.T, d.Brokers, name+"-in", 3, numbered(n, 500, 10)...)
		n += 500
		follow(d.T, d.Brokers, name+"-out").await(n, 60*time.Second)
		d.Logf("%s: all there %s after the reset", to, time.Since(began).Round(10*time.Millisecond))
		d.Cluster.Await("a later checkpoint", 30*time.Second, func() bool {
			st, err := d.Cluster.Status(name)
			return err == nil && st.State == "running" && st.UID == before.UID && st.Durable > before.Durable
		})
	}
	d.cancel(name)
	d.restful(name)
	d.once(name, n)
}
