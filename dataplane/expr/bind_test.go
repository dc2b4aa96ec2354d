package expr

import (
	"reflect"
	"strings"
	"testing"
)

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", "0: the expression is empty"},
		{"i +", "3: a value is missing at the end"},
		{"(i + 1", "6: a ) is missing"},
		{"i + * 2", "4: * where a value should be"},
		{"i j", "2: j where an operator should be"},
		{"i == 1", `2: "==" is no operator; write =`},
		{"i = 1 && b", `6: "&&" is no operator; write and`},
		{"s = 'x", "4: text has no closing '"},
		{"i = 10s", `4: "10s" is no number; a duration is written interval '10s'`},
		{"i < j < 3", "6: comparisons do not chain; join two of them with and"},
		{"ts > interval '10'", "14: '10' is no interval: its unit is missing or unknown; write it as '30m' or '1h30m'"},
		{"ts > timestamp '2026-13-01'", "15: '2026-13-01' is no timestamp: out of range; write it as '2026-01-31 23:59:59'"},
		{"i[1]", "1: arrays are not available yet"},
		{"i in (select 1)", "6: there are no subqueries; join with the other input"},
		{"case i end", "7: end where when should be"},
		{"cast(i as text)", "10: text is no type; types are boolean, int, bigint, double, string, bytes, date, decimal(p,s), timestamp(p)"},
		{"cast(i as decimal(40,2))", "10: decimal(40,2) does not exist; precision is 1 to 38, scale at most the precision"},
		{"ammount > 1", `0: no column "ammount"; did you mean amount?`},
		{"i = 1 and Amount > 1", `10: no column "Amount"; did you mean amount?`},
		{`s = "shipped"`, `4: no column "shipped"; text is written 'shipped'`},
		{"bid = 1", `0: "bid" is a struct; name one of its fields, such as bid.price`},
		{"bid.prize > 1", `0: no column "bid.prize"; did you mean bid.price?`},
		{"i = 'x'", "2: bigint and string do not compare; a number is written without quotes"},
		{"ts > '2026-01-01'", "3: timestamp(6) and string do not compare; write timestamp '2026-01-01'"},
		{"ts = day", "3: timestamp(6) and date do not compare; cast one of them"},
		{"s + 'x'", "2: + needs numbers, not string and string; text is joined with ||"},
		{"s || i", "2: || joins text, not bigint; write cast(… as string)"},
		{"i and b", "0: a condition is needed, i is bigint"},
		{"not s", "4: a condition is needed, s is string"},
		{"case when b then 1 else 'x' end", "0: the branches of case have no common type: bigint, string; cast them"},
		{"null", "0: null has no type here; write cast(null as …)"},
		{"interval '1s'", "0: an interval is no value of a column; add it to a timestamp"},
		{"ts - ts", "3: times are not added or subtracted; write unix_ms(a) - unix_ms(b)"},
		{"uper(s)", `0: no function "uper"; did you mean upper?`},
		{"upper()", "0: upper takes one argument, not 0"},
		{"upper(i)", "6: argument 1 of upper is string, not bigint; write cast(… as string)"},
		{"substring(s)", "0: substring takes two to three arguments, not 1"},
		{"regexp(s, ns)", "10: argument 2 of regexp must be a text literal"},
		{"regexp(s, '(')", "10: error parsing regexp: missing closing ): `(`"},
		{"extract(jear from ts)", `8: no unit of time "jear"; did you mean year?`},
		{"date_format(ts, 'EEE')", "16: the pattern's EEE is not available; there are yyyy, MM, dd, HH, hh, mm, ss, SSS, DDD"},
		{"sum(i) > 1", "0: sum is an aggregate; it belongs into aggregate: {name: sum(i)}"},
		{"cast(i as timestamp)", "0: bigint cannot be cast to timestamp(6); write to_timestamp_ms(…)"},
		{"i like 'x'", "0: argument 1 of like is string, not bigint; write cast(… as string)"},
		{"s like 'a$'  escape '$'", "7: the escape must stand before %, _ or itself"},
		{"123456789012345678901234567890123456789", "0: 123456789012345678901234567890123456789 has more than 38 digits"},
		{"1e999", "0: 1e999 is no double"},
		{"i # 1", "2: unexpected '#'"},
	} {
		if got := bindError(c.src); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.src, got, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, src := range []string{
		strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
		strings.Repeat("not ", 5000) + "b", strings.Repeat("- ", 5000) + "i",
		strings.Repeat("i + ", 5000) + "i", strings.Repeat("case when b then ", 3000),
		strings.Repeat(" ", maxSource+1),
	} {
		if _, err := Parse(src); err == nil {
			t.Errorf("Parse(%.20q…) succeeded, want an error", src)
		}
	}
}

// The first operand of these is evaluated several times, and so on inside it.
func TestExponentialExpressions(t *testing.T) {
	chain, nested := "b", "i"
	for range 40 {
		chain += " between b and nb"
		nested = "nullif(" + nested + ", 5)"
	}
	for _, src := range []string{chain, nested} {
		if got := bindError(src); !strings.HasSuffix(got, "the expression is too large; compute parts of it in an earlier step") {
			t.Errorf("%.40s…: %s, want a refusal", src, got)
		}
	}
}

// String is SQL that parses to the same tree; case of keywords and spacing do not matter.
func TestString(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"a + b * c - d", "((a + (b * c)) - d)"},
		{"NOT a AND b OR c", "(((not a) and b) or c)"},
		{`"user-id".x = 'it''s'`, `("user-id".x = 'it''s')`},
		{`"case"`, `"case"`}, {"bid.case", `bid."case"`},
		{"a || b = c", "((a || b) = c)"}, {"-a.b * 2", "((-a.b) * 2)"}, {"- 5", "-5"}, {"1.50", "1.50"}, {"1e3", "1e03"},
		{"x not between 1 and 2 and y", "((x not between 1 and 2) and y)"}, {"x IS NOT NULL", "(x is not null)"},
		{"x not in (1, 2)", "(x not in (1, 2))"}, {"x like 'a%' escape '$'", "(x like 'a%' escape '$')"},
		{"CASE x WHEN 1 THEN 2 ELSE 3 END", "case x when 1 then 2 else 3 end"}, {"try_cast(x AS INT)", "try_cast(x as int)"},
		{"Count(DISTINCT x) FILTER (WHERE y > 1)", "count(distinct x) filter (where (y > 1))"}, {"count( * )", "count(*)"},
		{"substring(s from 2 for 3)", "substring(s, 2, 3)"}, {"timestamp '2026-01-01'", "timestamp '2026-01-01 00:00:00.000000'"},
		{"interval '1h'", "interval '3600000000us'"},
	} {
		n, err := Parse(c.src)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.src, err)
			continue
		}
		if got := n.String(); got != c.want {
			t.Errorf("String of %q = %s, want %s", c.src, got, c.want)
		}
		again, err := Parse(n.String())
		if err != nil || again.String() != n.String() {
			t.Errorf("%q does not survive String: %v, %v", c.src, again, err)
		}
	}
}

func TestColumns(t *testing.T) {
	n, err := Parse("case when bid.price > i then s else upper(s) end || cast(i as string)")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Columns(n), [][]string{{"bid", "price"}, {"i"}, {"s"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("Columns=%v, want %v", got, want)
	}
	typed := mustBind(t, "case when bid.price > i then s else upper(s) end")
	if got, want := typed.Columns(), []int{0, 4, 14}; !reflect.DeepEqual(got, want) {
		t.Errorf("Typed.Columns=%v, want %v", got, want)
	}
	if i, ok := mustBind(t, `bid."user-id"`).Column(); !ok || i != 15 {
		t.Errorf("Column=%d, %v, want 15, true", i, ok)
	}
	if mustBind(t, "i + 1").UsesEventTime() || !mustBind(t, "year(event_time())").UsesEventTime() {
		t.Error("UsesEventTime is wrong")
	}
}

func TestFolding(t *testing.T) {
	for src, want := range map[string]string{
		"1 + 2 * 3": "7", "'a' || 'b'": "'ab'", "upper('x') = 'X'": "true", "timestamp '2026-01-01' + interval '1d'": "timestamp '2026-01-02 00:00:00.000000'",
		"true or i = 1": "true", "i = 1 and false": "", "false and i = 1": "false", "null is null": "true", "i is null": "false", "date_trunc('day', timestamp '2026-01-01 10:00:00') = timestamp '2026-01-01'": "true",
		"1 / 0": "", "coalesce(1, i)": "1", "i in (1)": "",
	} {
		v, ok := mustBind(t, src).Const()
		got := ""
		if ok {
			got = v.String()
		}
		if got != want {
			t.Errorf("%s folds to %q, want %q", src, got, want)
		}
	}
}

func TestNullability(t *testing.T) {
	for src, want := range map[string]bool{
		"i + 1": false, "ni + 1": true, "ni is null": false, "nb is true": false, "coalesce(ni, 1)": false, "coalesce(ni, null)": true, "case when b then 1 end": true,
		"case when nb then 1 else 2 end": false, "nullif(i, 1)": true, "regexp_extract(s, 'x')": true, "concat_ws(',', ns, 'x')": false, "try_cast(s as int)": true, "i in (1, null)": true,
	} {
		if got := mustBind(t, src).Nullable(); got != want {
			t.Errorf("Nullable(%s)=%v, want %v", src, got, want)
		}
	}
}

func TestSplitAggregates(t *testing.T) {
	n, err := Parse("cast(avg(price) as double) / count(*) + sum(x) filter (where y > 1) - count(*) * category")
	if err != nil {
		t.Fatal(err)
	}
	calls, rest, err := SplitAggregates(n, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rest.String(), `(((cast("$2" as double) / "$3") + "$4") - ("$3" * category))`; got != want {
		t.Errorf("rest=%s, want %s", got, want)
	}
	var got []string
	for _, c := range calls {
		s := c.Func
		if c.Arg != nil {
			s += " " + c.Arg.String()
		}
		if c.Filter != nil {
			s += " where " + c.Filter.String()
		}
		got = append(got, s)
	}
	if want := []string{"avg price", "count", "sum x where (y > 1)"}; !reflect.DeepEqual(got, want) {
		t.Errorf("calls=%q, want %q", got, want)
	}
	for src, want := range map[string]string{
		"1 + count(distinct x)": "count(distinct …) is not available yet", "sum(max(x))": "max inside an aggregate; aggregate again in another step",
		"sum(*)": "sum takes one argument", "count()": "count takes one argument; write count(*)", "min(a, b)": "min takes one argument",
	} {
		n, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := SplitAggregates(n, 0); err == nil || err.Error() != want {
			t.Errorf("SplitAggregates(%s)=%v, want %s", src, err, want)
		}
	}
}
