package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirstream/weir/config"
	"github.com/weirstream/weir/dataplane/plan"
)

func jobCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "job", Short: "Check, start, watch and cancel jobs"}
	group(c)
	c.AddCommand(
		validateCommand(s), renderCommand(s), explainCommand(s), schemaCommand(s), referenceCommand(s),
		startCommand(s), listCommand(s), statusCommand(s), cancelCommand(s),
	)
	return c
}

// readSpec reads, checks and plans a spec; "-" is standard input.
func readSpec(s streams, name string, params []string) (*plan.Plan, error) {
	var data []byte
	var err error
	if name == "-" {
		data, err = io.ReadAll(io.LimitReader(s.in, 2<<20))
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usageError{err}
	}
	values := map[string]string{}
	for _, p := range params {
		k, v, ok := strings.Cut(p, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--param %s: write --param name=value", p)}
		}
		values[k] = v
	}
	p, err := plan.Parse(name, data, values)
	if err != nil {
		return nil, problems(err)
	}
	return p, nil
}

// problems heads the list of a spec's mistakes with their number.
func problems(err error) error {
	var ps config.Problems
	if !errors.As(err, &ps) {
		return err
	}
	if len(ps) == 1 {
		return fmt.Errorf("the spec has a problem\n%w", err)
	}
	return fmt.Errorf("the spec has %d problems\n%w", len(ps), err)
}

func paramFlag(c *cobra.Command) *[]string {
	return c.Flags().StringArray("param", nil, "value of a parameter of the spec, name=value; may be repeated")
}

func validateCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "validate FILE", Short: "Check a job spec and say everything that is wrong with it", Args: exactly(1, "one file")}
	params := paramFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		p, err := readSpec(s, args[0], *params)
		if err != nil {
			return err
		}
		for _, w := range p.Warnings {
			fmt.Fprintln(s.err, w)
		}
		fmt.Fprintf(s.out, "%s is valid: %s\n", args[0], plan.Summary(p))
		return nil
	}
	return c
}

func renderCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "render FILE", Short: "Print a job spec as JSON for: temporal workflow start --input-file", Args: exactly(1, "one file"),
	}
	params := paramFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		p, err := readSpec(s, args[0], *params)
		if err != nil {
			return err
		}
		_, err = s.out.Write(p.Job.JSON())
		return err
	}
	return c
}

func explainCommand(s streams) *cobra.Command {
	c := &cobra.Command{
		Use: "explain FILE", Short: "Print the graph of a job: operators, uids, parallelism, channels, state", Args: exactly(1, "one file"),
	}
	params := paramFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		p, err := readSpec(s, args[0], *params)
		if err != nil {
			return err
		}
		return plan.Explain(s.out, p)
	}
	return c
}

func schemaCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of job specs, for editors", Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := s.out.Write(config.Schema())
			return err
		},
	}
}

func referenceCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "Print the reference of job specs as Markdown", Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(s.out, config.JobReference())
			return err
		},
	}
}
