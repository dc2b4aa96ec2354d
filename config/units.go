package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

// String is the size in the largest unit that divides it: 256MiB.
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i, v := 0, int64(s)
	for v != 0 && v%1024 == 0 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return strconv.FormatInt(v, 10) + units[i]
}

// Rate is Count per Per (a second, minute or hour).
type Rate struct {
	Count int64
	Per   time.Duration
}

// PerSecond is the rate as events a second.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}
	return float64(r.Count) / r.Per.Seconds()
}

// String is the rate as written: 1000/s.
func (r Rate) String() string {
	for unit, per := range ratePer {
		if per == r.Per {
			return strconv.FormatInt(r.Count, 10) + "/" + unit
		}
	}
	return "0/s"
}

const (
	durationPattern = `^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`
	sizePattern     = `^[0-9]+(B|KiB|MiB|GiB|TiB)$`
	ratePattern     = `^[0-9]+/(s|m|h)$`
)

var (
	durationRegexp = regexp.MustCompile(durationPattern)
	sizeRegexp     = regexp.MustCompile(sizePattern)
	rateRegexp     = regexp.MustCompile(ratePattern)

	durationUnits = []struct {
		name string
		is   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}
	sizeUnits = map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	ratePer   = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
)

var errTooLarge = errors.New("too large")

// parseDuration reads 250ms, 5s, 1h30m, 7d: units in falling order, each at most once.
func parseDuration(s string) (time.Duration, error) {
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%s is negative", s)
	}
	m := durationRegexp.FindStringSubmatch(s)
	if m == nil || s == "" {
		return 0, fmt.Errorf("%q is no duration", s)
	}
	total := int64(0)
	for i, u := range durationUnits {
		if m[i+1] == "" {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSuffix(m[i+1], u.name), 10, 64)
		if err != nil || v > (math.MaxInt64-total)/int64(u.is) {
			return 0, fmt.Errorf("%s: %w", s, errTooLarge)
		}
		total += v * int64(u.is)
	}
	return time.Duration(total), nil
}

// formatDuration is the inverse of parseDuration.
func formatDuration(v time.Duration) string {
	if v == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if n := v / u.is; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			v -= n * u.is
		}
	}
	return b.String()
}

// parseSize reads 256MiB. Decimal units are refused: which one was meant is a guess.
func parseSize(s string) (Size, error) {
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%s is negative", s)
	}
	m := sizeRegexp.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is no size; units are B, KiB, MiB, GiB, TiB", s)
	}
	v, err := strconv.ParseInt(strings.TrimSuffix(s, m[1]), 10, 64)
	if err != nil || v > math.MaxInt64/sizeUnits[m[1]] {
		return 0, fmt.Errorf("%s: %w", s, errTooLarge)
	}
	if v == 0 {
		return 0, fmt.Errorf("%s must be above 0", s)
	}
	return Size(v * sizeUnits[m[1]]), nil
}

// parseRate reads 1000/s.
func parseRate(s string) (Rate, error) {
	if strings.HasPrefix(s, "-") {
		return Rate{}, fmt.Errorf("%s is negative", s)
	}
	m := rateRegexp.FindStringSubmatch(s)
	if m == nil {
		return Rate{}, fmt.Errorf("%q is no rate; units are /s, /m, /h", s)
	}
	v, err := strconv.ParseInt(strings.TrimSuffix(s, "/"+m[1]), 10, 64)
	if err != nil {
		return Rate{}, fmt.Errorf("%s: %w", s, errTooLarge)
	}
	if v == 0 {
		return Rate{}, fmt.Errorf("%s must be above 0", s)
	}
	return Rate{Count: v, Per: ratePer[m[1]]}, nil
}
