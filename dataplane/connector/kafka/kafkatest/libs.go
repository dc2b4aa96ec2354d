package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Version is the Apache Kafka release that Start runs.
const Version = "4.1.1"

// LibsEnv names the environment variable with a folder that holds the broker's jars; unset: Libs fetches them.
const LibsEnv = "WEIR_KAFKA_LIBS"

// RequireEnv names the environment variable that turns missing tools from a skip into a failure.
const RequireEnv = "WEIR_REQUIRE_REAL"

// ErrNoTools says that java or mvn is not installed.
var ErrNoTools = errors.New("java and mvn are needed to run a real broker")

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>weir</groupId><artifactId>kafka-libs</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + Version + `</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
`

// Libs returns a folder with the broker's jars: $WEIR_KAFKA_LIBS, or a folder in the user's cache that is
// filled by Maven the first time (some 43 MB). Processes that need it at the same time wait for each other.
func Libs(ctx context.Context) (string, error) {
	if dir := os.Getenv(LibsEnv); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	root := filepath.Join(cache, "weir", "kafka-"+Version)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	lock := flock.New(filepath.Join(root, "lock"))
	if _, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		return "", fmt.Errorf("kafka jars: %w", err)
	}
	defer lock.Unlock()
	libs := filepath.Join(root, "libs")
	if _, err := os.Stat(libs); err == nil {
		return libs, nil
	}
	return libs, download(ctx, root, libs)
}

// download lets Maven copy the jars next to their final place, so that libs exists only when it is complete.
func download(ctx context.Context, root, libs string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: mvn: %w", ErrNoTools, err)
	}
	if err := os.WriteFile(filepath.Join(root, "pom.xml"), []byte(pom), 0o644); err != nil {
		return fmt.Errorf("kafka jars: %w", err)
	}
	partial := filepath.Join(root, "partial")
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("kafka jars: %w", err)
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory="+partial)
	cmd.Dir = root
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kafka jars: mvn: %w\n%s", err, out.Bytes())
	}
	if err := os.Rename(partial, libs); err != nil {
		return fmt.Errorf("kafka jars: %w", err)
	}
	return nil
}
