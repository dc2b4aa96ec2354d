package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirstream/weir/config"
)

// settingsFlags registers a flag per setting, and --config.
func settingsFlags(fs *pflag.FlagSet) {
	fs.String("config", "", "file of settings (YAML); also WEIR_CONFIG")
	for _, f := range config.SettingsFields() {
		usage := f.Doc + " (" + f.Kind
		if f.Default != "" {
			usage += ", default " + f.Default
		}
		usage += "; " + f.Env + ")"
		usage = strings.ReplaceAll(usage, "`", "")
		if f.Bool {
			fs.Bool(f.Flag, false, usage)
			continue
		}
		fs.String(f.Flag, "", usage)
	}
	fs.String(joinFlag, "", "members of the cluster to join, host:port,…; short for --cluster-join")
}

// joinFlag is the short name of the one setting that every worker of a real cluster needs.
const joinFlag = "join"

// loadSettings reads the settings of a command from its file, the environment and its flags.
func loadSettings(fs *pflag.FlagSet) (*config.Settings, error) {
	in := config.SettingsInput{Env: os.Environ(), Flags: map[string]string{}}
	name, _ := fs.GetString("config")
	if name == "" {
		name = os.Getenv("WEIR_CONFIG")
	}
	if name != "" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("settings: %w", err)}
		}
		in.FileName, in.Data = name, data
	}
	for _, f := range config.SettingsFields() {
		if fl := fs.Lookup(f.Flag); fl != nil && fl.Changed {
			in.Flags[f.Flag] = fl.Value.String()
		}
	}
	if fl := fs.Lookup(joinFlag); fl != nil && fl.Changed {
		in.Flags["cluster-join"] = fl.Value.String()
	}
	s, err := config.LoadSettings(in)
	if err != nil {
		return nil, usageError{err}
	}
	return s, nil
}

// newLogger makes the process's logger.
func newLogger(w io.Writer, s config.LogSettings) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func settingsCommand(s streams) *cobra.Command {
	c := &cobra.Command{Use: "settings", Short: "Show the settings of a worker"}
	group(c)
	show := &cobra.Command{
		Use: "show", Short: "Print the effective settings, secrets as their references", Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := loadSettings(c.Flags())
			if err != nil {
				return err
			}
			for _, v := range set.Values() {
				fmt.Fprintf(s.out, "%-26s %s\n", v.Key, v.Value)
			}
			return nil
		},
	}
	settingsFlags(show.Flags())
	reference := &cobra.Command{
		Use: "reference", Short: "Print the reference of all settings as Markdown", Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(s.out, config.SettingsReference())
			return err
		},
	}
	c.AddCommand(show, reference)
	return c
}
