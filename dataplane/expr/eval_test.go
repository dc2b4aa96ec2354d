package expr

import (
	"testing"
)

func TestArithmetic(t *testing.T) {
	runEval(t, []evalCase{
		{"i + j * 2", 0, "21"}, {"i - j - 1", 0, "-1"}, {"(i - 3) / 2", 0, "2"}, {"i / 2", 1, "-1"}, {"i % 2", 1, "-1"},
		{"-i", 0, "-7"}, {"- -i", 0, "7"}, {"+i", 0, "7"}, {"-9223372036854775808", 0, "-9223372036854775808"},
		{"i + 9223372036854775807", 0, "error: out of range"}, {"i + 9223372036854775807", 1, "9223372036854775804"},
		{"i - 9223372036854775807 - 3", 1, "error: out of range"}, {"i * 4611686018427387904", 0, "error: out of range"},
		{"-9223372036854775808 / (j / -3)", 1, "-9223372036854775808"}, {"-9223372036854775808 / (j / 3)", 1, "error: out of range"},
		{"-9223372036854775808 % (j / 3)", 1, "0"}, {"-(i - 7 - 9223372036854775807 - 1)", 0, "error: out of range"},
		{"1 / i", 2, "error: division by zero"}, {"1 % i", 2, "error: division by zero"}, {"f / i", 2, "error: division by zero"},
		{"d / i", 2, "error: division by zero"}, {"d % i", 2, "error: division by zero"},
		{"f * 2", 0, "3.0"}, {"f + i", 0, "8.5"}, {"f - 0.5", 0, "1.0"}, {"5 % f", 0, "0.5"}, {"1e3", 0, "1000.0"}, {"1.5e300 * 1e300", 0, "Infinity"},
		{"d + 1", 0, "13.50"}, {"d - 0.005", 0, "12.495"}, {"d * d", 1, "0.0025"}, {"d / 3", 0, "4.1666666666667"}, {"d % 5", 0, "2.50"},
		{"0.1 + 0.2", 0, "0.3"}, {"ni + 1", 2, "null"}, {"null + 1", 0, "null"}, {"i + null", 0, "null"}, {"d + null", 0, "null"},
		// The null row would overflow and divide by zero if it were computed.
		{"ni / (ni - 7)", 2, "null"},
		{"12345678901234567890123456789012345678 + 1", 0, "12345678901234567890123456789012345679"},
		{"99999999999999999999999999999999999999 + i", 0, "error: out of range"},
		{"ts + interval '1h30m'", 2, "1970-01-01 01:30:00.000000"}, {"interval '1d' + ts", 1, "1970-01-01 23:59:59.999999"},
		{"ts - interval '1s' - interval '500ms'", 2, "1969-12-31 23:59:58.500000"}, {"ts + (interval '1h' - interval '1m')", 2, "1970-01-01 00:59:00.000000"},
	})
}

func TestDecimalTypes(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"i * 0.908", "decimal(23,3)"}, // Nexmark q1
		{"d + d", "decimal(13,2)"}, {"d * d", "decimal(25,4)"}, {"d / d", "decimal(27,15)"}, {"d % 0.5", "decimal(2,2)"},
		{"d + i", "decimal(22,2)"}, {"d + 1", "decimal(13,2)"}, {"d * cast(1 as decimal(38,10))", "decimal(38,6)"},
		{"d / cast(1 as decimal(38,10))", "decimal(38,18)"}, {"d + f", "double"}, {"coalesce(nd, i)", "decimal(21,2)"}, {"1.50", "decimal(3,2)"},
		{"round(d, 1)", "decimal(12,1)"}, {"round(d)", "decimal(11,0)"}, {"floor(d)", "decimal(11,0)"},
		{"case when b then 1 else 2.5 end", "decimal(20,1)"},
	} {
		if got := mustBind(t, c.src).Type().String(); got != c.want {
			t.Errorf("type of %s = %s, want %s", c.src, got, c.want)
		}
	}
}

func TestComparison(t *testing.T) {
	runEval(t, []evalCase{
		{"i = 7", 0, "true"}, {"7 <> i", 0, "false"}, {"i != j", 0, "false"}, {"i < 8", 0, "true"}, {"8 < i", 0, "false"}, {"i <= 7", 0, "true"},
		{"7 >= i", 0, "true"}, {"i > 7", 0, "false"}, {"7 > i", 0, "false"}, {"i >= 7", 0, "true"},
		{"i > 9223372036854775807", 0, "false"}, {"i <= 9223372036854775807", 0, "true"}, {"i < -9223372036854775808", 1, "false"}, {"i >= -9223372036854775808", 1, "true"},
		{"i = j + 0", 0, "true"}, {"i < j + 1", 0, "true"}, {"i >= j + 1", 0, "false"}, {"i > j - 1", 0, "true"}, {"i <= j - 1", 0, "false"},
		{"d = 12.5", 0, "true"}, {"d = 12.500000000000000000000000000000000001", 0, "false"}, {"d < 12.51", 0, "true"}, {"d > i", 0, "true"}, {"i < d", 0, "true"},
		{"f > 1", 0, "true"}, {"f = 1.5", 0, "true"}, {"s = 'Hello'", 0, "true"}, {"s <> 'Hello'", 1, "true"}, {"s < 'I'", 0, "true"},
		{"s = 'grüße, ein längerer Text'", 1, "true"}, {"s = 'grüße, ein längerer Texx'", 1, "false"}, {"s = 'grün, ein längerer Text'", 1, "false"},
		{"s = ''", 2, "true"}, {"s = ''", 0, "false"}, {"'Hell' = s", 0, "false"}, {"s = s || ''", 1, "true"},
		{"b = true", 0, "true"}, {"b < true", 1, "true"}, {"ts < timestamp '2026-08-01'", 0, "true"}, {"day = date '2026-07-31'", 0, "true"},
		{"ni = 7", 2, "null"}, {"ni <> 7", 2, "null"}, {"null = null", 0, "null"}, {"i = null", 0, "null"}, {"d = null", 0, "null"}, {"ns = 'x'", 2, "null"},
		{"i between 0 and 7", 0, "true"}, {"i not between 0 and 7", 0, "false"}, {"i between 8 and 1", 0, "false"}, {"ni between 1 and 2", 2, "null"},
		{"i between 8 and ni", 2, "false"},
		{"i in (1, 7, 9)", 0, "true"}, {"i in (6, 7, 8)", 0, "true"}, {"i not in (1, 2)", 0, "true"}, {"s in ('a', 'Hello')", 0, "true"}, {"i in (1, null)", 0, "null"},
		{"i in (7, null)", 0, "true"}, {"i not in (1, null)", 0, "null"}, {"i in (1.5, 7.0)", 0, "true"}, {"ni in (1, 2)", 2, "null"}, {"i in (j, 3)", 0, "true"},
		{"i in (1, 20, 30, 40, 50, 60, 70, 80, 7)", 0, "true"}, {"i in (1, 20, 30, 40, 50, 60, 70, 80, 90)", 0, "false"}, {"i in (1, 9, 7)", 0, "true"}, {"i in (1, 9)", 0, "false"},
		{"s in ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'Hello')", 0, "true"}, {"s in ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i')", 0, "false"},
		{"s in ('x', 'grüße, ein längerer Text')", 1, "true"}, {"s in ('x', 'grüße, ein längerer Texx')", 1, "false"}, {"s not in ('x', '')", 2, "false"},
		{"f in (1.5, 2)", 0, "true"}, {"ns in ('a', 'b')", 2, "null"},
	})
}

// Doubles compare as keys do.
func TestNaNAndNegativeZero(t *testing.T) {
	runEval(t, []evalCase{
		{"f = f", 2, "true"}, {"f = cast('NaN' as double)", 2, "true"}, {"f > 1e308", 2, "true"}, {"1e308 < f", 2, "true"}, {"f < 1", 2, "false"}, {"f <> f", 2, "false"},
		{"f >= f", 2, "true"}, {"f = cast('NaN' as double)", 0, "false"}, {"f < cast('NaN' as double)", 0, "true"},
		{"-0e0 = 0e0", 0, "true"}, {"f * 0 = 0", 1, "true"}, {"greatest(f, 1e0)", 2, "NaN"}, {"least(f, 1e0)", 2, "1.0"},
		{"cast(f as bigint)", 2, "error: NaN as bigint: out of range"}, {"sign(f)", 2, "NaN"},
	})
}

func TestThreeValuedLogic(t *testing.T) {
	values := []string{"true", "false", "null"}
	and := [3][3]string{{"true", "false", "null"}, {"false", "false", "false"}, {"null", "false", "null"}}
	or := [3][3]string{{"true", "true", "true"}, {"true", "false", "null"}, {"true", "null", "null"}}
	// In row 2: nb is null, i = 0. Columns and not only literals, so that the kernels run.
	column := map[string]string{"true": "i = 0", "false": "i = 1", "null": "nb"}
	for x, a := range values {
		for y, b := range values {
			for _, form := range []map[string]string{column, {"true": "true", "false": "false", "null": "null"}} {
				p, q := form[a], form[b]
				runEval(t, []evalCase{
					{"(" + p + ") and (" + q + ")", 2, and[x][y]}, {"(" + p + ") or (" + q + ")", 2, or[x][y]},
					{"((" + p + ") and (" + q + ")) is null", 2, boolText(and[x][y] == "null")},
					{"((" + p + ") or (" + q + ")) is not true", 2, boolText(or[x][y] != "true")},
					{"not ((" + p + ") or (" + q + "))", 2, map[string]string{"true": "false", "false": "true", "null": "null"}[or[x][y]]},
				})
			}
		}
		p := column[a]
		runEval(t, []evalCase{
			{"(" + p + ") is true", 2, boolText(a == "true")}, {"(" + p + ") is false", 2, boolText(a == "false")},
			{"(" + p + ") is null", 2, boolText(a == "null")}, {"(" + p + ") is not null", 2, boolText(a != "null")},
			{"(" + p + ") is not false", 2, boolText(a != "false")},
		})
	}
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// A row that is decided otherwise is not evaluated further.
func TestBranchesAreNotEvaluated(t *testing.T) {
	runEval(t, []evalCase{
		{"i <> 0 and 1 / i > 0", 2, "false"}, {"i = 0 or 1 / i > 0", 2, "true"}, {"not (i = 0 or 1 / i > 0)", 2, "false"},
		{"case when i = 0 then 0 else 1 / i end", 2, "0"}, {"case i when 0 then 0 else 1 / i end", 2, "0"}, {"if(i = 0, 0, 1 / i)", 2, "0"},
		{"coalesce(i, 1 / i)", 2, "0"}, {"coalesce(ni, 1 / (i - 7))", 2, "0"}, {"coalesce(ni, 1 / (i - 7))", 0, "7"},
		{"case when false then 1 / 0 else 5 end", 2, "5"}, {"i in (0, 1 / i)", 2, "true"},
		{"1 / i > 0 and i <> 0", 2, "error: division by zero"}, {"nb and 1 / i > 0", 2, "error: division by zero"},
	})
}

func TestConditionals(t *testing.T) {
	runEval(t, []evalCase{
		{"case when i > 0 then 'plus' when i < 0 then 'minus' end", 0, "plus"}, {"case when i > 0 then 'plus' when i < 0 then 'minus' end", 1, "minus"},
		{"case when i > 0 then 'plus' when i < 0 then 'minus' end", 2, "null"}, {"case when nb then 1 else 2.5 end", 2, "2.5"},
		{"case when b then s else upper(s) end", 1, "GRÜßE, EIN LÄNGERER TEXT"}, {"case when b then true else nb end", 2, "null"},
		{"coalesce(ns, 'none')", 2, "none"}, {"coalesce(ns, s)", 1, "grüße, ein längerer Text"}, {"coalesce(nf, nd, i)", 2, "0.0"}, {"coalesce(null, i)", 0, "7"},
		{"nullif(i, 7)", 0, "null"}, {"nullif(i, 7)", 1, "-3"}, {"nullif(s, '')", 2, "null"}, {"if(b, i, 0)", 0, "7"}, {"if(nb, i, -1)", 2, "-1"},
	})
}

func TestCasts(t *testing.T) {
	runEval(t, []evalCase{
		{"cast(i as double)", 0, "7.0"}, {"cast(f as bigint)", 1, "-2"}, {"cast(1.9 as int)", 0, "1"}, {"cast(-1.9e0 as int)", 0, "-1"}, {"cast(i as decimal(5,2))", 0, "7.00"},
		{"cast(i * 1000 as decimal(5,2))", 0, "error: as decimal(5,2): out of range"}, {"cast(i + 2147483641 as int)", 0, "error: 2147483648 as int: out of range"},
		{"cast(9223372036854775807e0 + f as bigint)", 0, "error: 9.223372036854776e+18 as bigint: out of range"},
		{"cast(-9223372036854775808e0 * i / 7 as bigint)", 0, "-9223372036854775808"},
		{"cast(i as string)", 1, "-3"}, {"cast(f as string)", 0, "1.5"}, {"cast(d as string)", 0, "12.50"}, {"cast(b as string)", 0, "TRUE"}, {"cast(ts as string)", 0, "2026-07-31 23:59:59.123456"},
		{"cast(cast(ts as timestamp(3)) as string)", 1, "1969-12-31 23:59:59.999"}, {"cast(ts as date)", 1, "1969-12-31"}, {"cast(day as timestamp)", 1, "1969-12-31 00:00:00.000000"},
		{"cast(day as string)", 0, "2026-07-31"}, {"cast(' 42 ' as bigint)", 0, "42"}, {"cast(s as bigint)", 0, `error: "Hello" is no bigint`}, {"try_cast(s as bigint)", 0, "null"}, {"try_cast('12' as bigint)", 0, "12"},
		{"cast('99999999999999999999' as bigint)", 0, `error: "99999999999999999999" as bigint: out of range`}, {"cast('1e2' as decimal(5,1))", 0, "100.0"}, {"cast('x' as decimal)", 0, `error: "x": no decimal number`},
		{"cast('2026-01-31T12:30:00.5+02:00' as timestamp)", 0, "2026-01-31 10:30:00.500000"}, {"cast('2026-02-29' as date)", 0, `error: "2026-02-29" as date: out of range`}, {"cast('2026-2-1' as date)", 0, `error: "2026-2-1" is no date`},
		{"cast('true' as boolean)", 0, "true"}, {"cast('maybe' as boolean)", 0, `error: "maybe" is no boolean`}, {"cast(i as boolean)", 2, "false"}, {"cast(b as int)", 0, "1"}, {"cast(s as bytes)", 0, "Hello"}, {"cast(raw as string)", 1, "grüße, ein längerer Text"},
		{"cast(null as bigint)", 0, "null"}, {"cast(d as decimal(5,1))", 1, "-0.1"}, {"cast(1e10 as string)", 0, "1E+10"}, {"cast(d as double)", 0, "12.5"}, {"cast(0.5 as decimal(3,0))", 0, "1"},
	})
}

func TestTextFunctions(t *testing.T) {
	runEval(t, []evalCase{
		{"upper(s)", 0, "HELLO"}, {"lower(s)", 0, "hello"}, {"upper(s)", 1, "GRÜßE, EIN LÄNGERER TEXT"}, {"length(s)", 1, "24"}, {"char_length('é')", 0, "1"},
		{"substring(s, 2, 3)", 0, "ell"}, {"substring(s from 3)", 1, "üße, ein längerer Text"}, {"substring(s from 3 for 2)", 1, "üß"}, {"substr(s, -2)", 0, "lo"}, {"substring(s, 0, 2)", 0, "He"},
		{"substring(s, 10)", 0, ""}, {"substring(s, -10, 7)", 0, "He"}, {"substring(s, 1, -1)", 0, "error: substring of negative length"}, {"substring(s, 9223372036854775807, 9223372036854775807)", 0, ""},
		{"trim('  a b ')", 0, "a b"}, {"ltrim('  a')", 0, "a"}, {"rtrim('a  ')", 0, "a"}, {"trim('xxaxx', 'x')", 0, "a"}, {"s || '!'", 0, "Hello!"}, {"s || ns", 2, "null"}, {"s || '-' || s || '-' || s", 0, "Hello-Hello-Hello"},
		{"concat(s, '-', cast(i as string))", 0, "Hello-7"}, {"concat_ws(',', s, ns, 'x')", 2, ",x"}, {"concat_ws(ns, 'a', 'b')", 2, "null"}, {"concat_ws('-', 'a', null, 'b')", 0, "a-b"},
		{"replace(s, 'l', 'LL')", 0, "HeLLLLo"}, {"replace(s, 'zz', 'y')", 1, "grüße, ein längerer Text"}, {"position('l' in s)", 0, "3"}, {"strpos(s, 'ein')", 1, "8"}, {"instr(s, 'zz')", 0, "0"},
		{"starts_with(s, 'He')", 0, "true"}, {"ends_with(s, 'x')", 0, "false"}, {"startswith(ns, 'x')", 2, "null"}, {"split_index('a/b//c', '/', 3)", 0, "c"}, {"split_index('a/b//c', '/', 2)", 0, ""}, {"split_index('a/b', '/', 2)", 0, "null"},
		{"lpad(s, 8, 'xy')", 0, "xyxHello"}, {"rpad(s, 7, 'é')", 0, "Helloéé"}, {"lpad(s, 2, 'x')", 0, "He"}, {"lpad(s, -1, 'x')", 0, "error: length of the padded text is out of range"}, {"reverse(s)", 0, "olleH"}, {"reverse('aé')", 0, "éa"},
		{"regexp(s, '^H.*o$')", 0, "true"}, {"regexp_extract(s, '(.)l(.)', 2)", 0, "l"}, {"regexp_extract(s, 'z')", 0, "null"}, {"regexp_extract(s, 'längerer')", 1, "längerer"}, {"regexp_replace(s, 'l+', '_')", 0, "He_o"},
		{"upper(ns)", 2, "null"}, {"substring(upper(s || s), 2, 12)", 1, "RÜßE, EIN LÄ"},
	})
}

func TestLike(t *testing.T) {
	for _, c := range []struct {
		text, pattern string
		want          string
	}{
		{"abc", "abc", "true"}, {"abc", "ab", "false"}, {"abc", "a%", "true"}, {"abc", "%c", "true"}, {"abc", "%b%", "true"}, {"abc", "a_c", "true"}, {"aéc", "a_c", "true"}, {"abbc", "a_c", "false"},
		{"", "%", "true"}, {"", "_", "false"}, {"", "", "true"}, {"abab", "%ab", "true"}, {"aXbXc", "a%b%c", "true"}, {"aab", "%a_", "true"}, {"aé", "%_", "true"}, {"xaéy", "%a__", "true"}, {"ab", "%a__", "false"},
		{"aba", "a%aba", "false"}, {"mississippi", "m%iss%ip_i", "true"}, {"mississippi", "m%_ss%pp_", "true"}, {"ABC", "abc", "false"}, {"a%c", "a$%c", "true"}, {"abc", "a$%c", "false"}, {"a$c", "a$$c", "true"},
		{"a\nb", "a%b", "true"},
	} {
		src := "'" + c.text + "' like '" + c.pattern + "' escape '$'"
		column := "coalesce(ns, '" + c.text + "') like '" + c.pattern + "' escape '$'"
		dynamic := "'" + c.text + "' like coalesce(ns, '" + c.pattern + "') escape '$'"
		runEval(t, []evalCase{{src, 0, c.want}, {column, 2, c.want}, {dynamic, 2, c.want}})
	}
	runEval(t, []evalCase{{"s not like 'H%'", 0, "false"}, {"ns like 'x'", 2, "null"}, {"s like null", 0, "null"}, {"'a\\%b' like 'a\\%b'", 0, "true"}})
}

func TestNumberFunctions(t *testing.T) {
	runEval(t, []evalCase{
		{"abs(i)", 1, "3"}, {"abs(d)", 1, "0.05"}, {"abs(f)", 1, "2.0"}, {"abs(i - 9223372036854775805)", 1, "error: out of range"},
		{"ceil(d)", 0, "13"}, {"floor(d)", 0, "12"}, {"ceil(d)", 1, "0"}, {"floor(d)", 1, "-1"}, {"floor(f)", 0, "1.0"}, {"ceil(f)", 0, "2.0"}, {"floor(i)", 0, "7"},
		{"round(d)", 0, "13"}, {"round(d, 1)", 1, "-0.1"}, {"round(f)", 0, "2.0"}, {"round(1234.5678e0, 2)", 0, "1234.57"}, {"round(i * 7, -1)", 0, "50"}, {"round(d * 10, -2)", 0, "100"}, {"round(d, 5)", 0, "12.50"},
		{"round(i + 9223372036854775800, -1)", 0, "error: out of range"},
		{"mod(i, 4)", 0, "3"}, {"power(2, 10)", 0, "1024.0"}, {"sqrt(16)", 0, "4.0"}, {"exp(0)", 0, "1.0"}, {"ln(1)", 0, "0.0"}, {"log10(1000)", 0, "3.0"},
		{"sign(i)", 1, "-1"}, {"sign(d)", 1, "-1.00"}, {"sign(f)", 0, "1.0"}, {"greatest(i, 1, 5)", 0, "7"}, {"least(i, 1, 5.5)", 0, "1.0"}, {"greatest(s, 'A')", 0, "Hello"}, {"greatest(ni, 1)", 2, "null"},
		{"least(ts, timestamp '1970-01-01')", 1, "1969-12-31 23:59:59.999999"}, {"greatest(d, 12.6)", 0, "12.60"},
	})
}

func TestTimeFunctions(t *testing.T) {
	runEval(t, []evalCase{
		{"extract(year from ts)", 0, "2026"}, {"extract(MONTH from ts)", 0, "7"}, {"year(ts)", 1, "1969"}, {"month(ts)", 0, "7"}, {"day(ts)", 0, "31"}, {"hour(ts)", 1, "23"}, {"minute(ts)", 0, "59"}, {"second(ts)", 1, "59"},
		{"quarter(ts)", 0, "3"}, {"doy(ts)", 0, "212"}, {"dow(ts)", 2, "5"}, {"dow(ts)", 0, "6"}, {"extract(epoch from ts)", 1, "-1"}, {"millisecond(ts)", 0, "123"}, {"year(day)", 0, "2026"},
		{"date_trunc('hour', ts)", 0, "2026-07-31 23:00:00.000000"}, {"floor(ts to day)", 1, "1969-12-31 00:00:00.000000"}, {"date_trunc('month', ts)", 0, "2026-07-01 00:00:00.000000"}, {"date_trunc('week', ts)", 0, "2026-07-27 00:00:00.000000"},
		{"date_trunc('quarter', ts)", 0, "2026-07-01 00:00:00.000000"}, {"date_trunc('year', ts)", 1, "1969-01-01 00:00:00.000000"},
		{"date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS')", 0, "2026-07-31 23:59:59.123"}, {"date_format(ts, 'yy/M/d ''at'' hh')", 0, "26/7/31 at 11"}, {"date_format(day, 'DDD')", 0, "212"},
		{"to_timestamp('2026-01-01 00:00:00')", 0, "2026-01-01 00:00:00.000000"}, {"to_timestamp(s)", 0, `error: "Hello" is no timestamp(6)`}, {"to_timestamp_ms(1500)", 0, "1970-01-01 00:00:01.500"}, {"unix_ms(ts)", 1, "-1"},
		{"event_time()", 1, "1970-01-01 00:00:01.500000"}, {"event_time()", 2, "1969-12-31 23:59:59.999999"},
	})
}
