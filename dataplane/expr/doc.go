// Package expr is the language of the job's expressions: SQL scalar expressions, typed at submit time and
// compiled to vectorised kernels.
//
//	node, err := expr.Parse("price > 100 and auction % 123 = 0") // syntax, with byte offsets
//	typed, err := expr.Bind(node, expr.SchemaScope(schema))      // types, constants folded
//	program, err := expr.Compile(typed, place)                   // one per subtask
//	predicate, err := expr.NewPredicate(program)
//
// The dialect is Flink SQL's, with these decisions:
//
//   - NULL is three-valued; functions of a null are null unless their job is nulls (coalesce, concat_ws, …).
//   - Implicit casts go int → bigint → decimal → double only. Text is never converted implicitly.
//   - Overflow of 64-bit integers and decimals and division by zero (of doubles too) are errors of the row,
//     never a wrapped value, a null or an infinity.
//   - Doubles are totally ordered, as keys are: NaN equals NaN and is greater than every number; −0 equals 0.
//   - Positions in text count characters from 1.
//
// Evaluation runs a kernel a batch and node, under a selection: a row that is not selected costs nothing and
// can raise no error. The right side of AND and OR, the branches of CASE and the later arguments of
// coalesce are evaluated for the rows that need them only.
package expr
