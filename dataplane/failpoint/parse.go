package failpoint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

type action string

const (
	kill  action = "kill"
	stop  action = "stop"
	sleep action = "sleep"
	pause action = "pause"
	fail  action = "error"
)

// rule is one entry of WEIR_FAILPOINTS.
type rule struct {
	index    int
	name     string
	instance string // "" is any
	action   action
	pause    time.Duration // of sleep
	nth      int
	hits     int // guarded by rules.mu
}

func (r *rule) matches(name, instance string) bool {
	return r.name == name && (r.instance == "" || r.instance == instance)
}

// parse reads name=action@n, separated by commas.
func parse(text string) ([]*rule, error) {
	var list []*rule
	for i, entry := range strings.Split(text, ",") {
		r, err := parseRule(strings.TrimSpace(entry))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		r.index = i
		list = append(list, r)
	}
	return list, nil
}

func parseRule(entry string) (*rule, error) {
	name, what, ok := strings.Cut(entry, "=")
	if !ok {
		return nil, fmt.Errorf("want name=action@n")
	}
	r := &rule{name: name, nth: 1}
	if base, rest, ok := strings.Cut(name, "["); ok {
		if r.instance, ok = strings.CutSuffix(rest, "]"); !ok || r.instance == "" {
			return nil, fmt.Errorf("want name[instance]")
		}
		r.name = base
	}
	p, ok := find(r.name)
	if !ok {
		return nil, fmt.Errorf("there is no such point")
	}
	if r.instance != "" && !p.Each {
		return nil, fmt.Errorf("the point has no instances")
	}
	what, nth, counted := strings.Cut(what, "@")
	if counted {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("@%s: want the number of a hit, from 1", nth)
		}
		r.nth = n
	}
	return r, r.setAction(p, what)
}

func (r *rule) setAction(p Point, what string) error {
	verb, rest, _ := strings.Cut(what, "(")
	r.action = action(verb)
	switch r.action {
	case sleep:
		text, ok := strings.CutSuffix(rest, ")")
		d, err := time.ParseDuration(text)
		if !ok || err != nil || d < 0 {
			return fmt.Errorf("want sleep(3s)")
		}
		r.pause = d
		return nil
	case fail:
		if !p.Errs {
			return fmt.Errorf("the point cannot return an error")
		}
	case kill, stop, pause:
	default:
		return fmt.Errorf("no such action; want kill, stop, sleep(…), pause or error")
	}
	if what != verb {
		return fmt.Errorf("%s takes no argument", verb)
	}
	return nil
}
