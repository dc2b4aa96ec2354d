package nexmark

import (
	"testing"

	"github.com/weirstream/weir/dataplane/connector"
	"github.com/weirstream/weir/dataplane/connector/connectortest"
)

func TestConformance(t *testing.T) {
	connectortest.TestSource(t, connectortest.SourceHarness{New: func(t *testing.T) connector.Source {
		return newSource(t, Config{Events: 9001, Rate: 1000, Splits: 3})
	}})
}
