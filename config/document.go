package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDocument bounds a document, in bytes.
	maxDocument = 1 << 20
	// maxDepth bounds its nesting.
	maxDepth = 32
)

// document parses the text into nodes and refuses what the language leaves out: several documents, anchors
// and aliases, merge keys, tags, and nesting beyond reason. It returns nil if there is nothing to read.
func (d *decoder) document(data []byte) *yaml.Node {
	top := Place{File: d.file}
	switch {
	case len(data) > maxDocument:
		d.failf(top, "", "the document has %d bytes; at most %d are read", len(data), maxDocument)
		return nil
	case !utf8.Valid(data):
		d.failf(top, "save it as UTF-8", "the document is not UTF-8")
		return nil
	}
	var root *yaml.Node
	if json.Valid(data) {
		root = d.jsonDocument(data)
	} else {
		root = d.yamlDocument(data)
	}
	if root == nil || !d.checkTree(root, top, 0) {
		return nil
	}
	return root
}

var yamlErrorLine = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

func (d *decoder) yamlDocument(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			d.failf(Place{File: d.file}, "", "the document is empty")
		} else {
			d.syntaxError(err)
		}
		return nil
	}
	if err := dec.Decode(&next); err == nil {
		d.failf(Place{File: d.file, Line: next.Line, Column: next.Column}, "keep one", "several documents in one file")
		return nil
	} else if !errors.Is(err, io.EOF) {
		d.syntaxError(err)
		return nil
	}
	return doc.Content[0]
}

func (d *decoder) syntaxError(err error) {
	m := yamlErrorLine.FindStringSubmatch(err.Error())
	at := Place{File: d.file, Line: 1, Column: 1} // the parser names no line when it is the first
	msg := err.Error()
	if m != nil {
		msg = m[2]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil && n > 0 {
			at.Line, at.Column = n, 1
		}
	}
	hint := ""
	if strings.Contains(msg, "did not find expected ',' or") {
		hint = "inside braces and brackets quote what holds , [ ] { } or ?"
	}
	d.failf(at, hint, "no YAML: %s", strings.TrimSpace(msg))
}

// checkTree refuses the parts of YAML that are not in the language. It returns false where reading on makes
// no sense.
func (d *decoder) checkTree(n *yaml.Node, at Place, depth int) bool {
	at = d.nodePlace(n, at)
	if depth > maxDepth {
		d.failf(at, "", "nested more than %d deep", maxDepth)
		return false
	}
	if n.Kind == yaml.AliasNode {
		d.failf(at, "write the value out", "aliases (*%s) are not part of the language", n.Value)
		return true
	}
	if n.Anchor != "" {
		d.failf(at, "write the value out where it is used", "anchors (&%s) are not part of the language", n.Anchor)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.failf(at, "remove it", "tags (%s) are not part of the language", n.Tag)
	}
	for i, c := range n.Content {
		child := at
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 && c.Tag == "!!merge" {
				d.failf(d.nodePlace(c, at), "write the keys out", "merge keys (<<) are not part of the language")
			}
			if k := n.Content[i&^1]; k.Kind == yaml.ScalarNode {
				child = at.Key(k.Value)
			}
		} else {
			child = at.Index(i)
		}
		if !d.checkTree(c, child, depth+1) {
			return false
		}
	}
	return true
}

// jsonDocument makes the same nodes from JSON. It is not left to the YAML parser, which refuses JSON's
// surrogate pairs and tabs.
func (d *decoder) jsonDocument(data []byte) *yaml.Node {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	n, err := r.value(0)
	if err != nil {
		d.failf(Place{File: d.file, Line: r.line, Column: 1}, "", "no JSON: %v", err)
		return nil
	}
	return n
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
	// line and start describe the line that contains pos, the end of what was looked at.
	line, start, pos int
}

// place moves to the start of the next token.
func (r *jsonReader) place() (line, column int) {
	i := int(r.dec.InputOffset())
	for i < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[i]) >= 0 {
		i++
	}
	for ; r.pos < i; r.pos++ {
		if r.data[r.pos] == '\n' {
			r.line, r.start = r.line+1, r.pos+1
		}
	}
	const most = 1 << 12 // columns far to the right are counted in bytes, or one long line would cost its square
	if i-r.start > most {
		return r.line, i - r.start + 1
	}
	return r.line, utf8.RuneCount(r.data[r.start:i]) + 1
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.Line, n.Column = r.place()
	tok, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := tok.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		if depth > maxDepth {
			return nil, fmt.Errorf("nested more than %d deep", maxDepth)
		}
		for r.dec.More() {
			c, err := r.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		_, err = r.dec.Token()
		return n, err
	case string:
		n.Value, n.Style = t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Value = t.String()
	case bool:
		n.Value = strconv.FormatBool(t)
	case nil:
		n.Value = "null"
	}
	return n, nil
}
