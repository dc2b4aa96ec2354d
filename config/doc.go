// Package config is the shape of what people write: the job spec (ParseJob) and the worker's settings
// (LoadSettings). It owns their types, defaults, strict parsing with places, JSON Schema and reference pages.
//
// One table per object (tables_*.go, settings_table.go) names each key once, with its documentation, default
// and codec. Parsing, rendering, the unknown-key suggestions, the JSON Schema and the reference page are all
// read from that table, so that they cannot disagree.
//
// The parser reports every mistake at once, as Problems. It checks what can be known from the text alone:
// keys, types, units, names and references. Columns, expression types and changelog modes are checked by the
// planner, which adds its own Problems at the Places that the parsed values carry.
package config
