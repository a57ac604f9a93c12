package hygiene

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// durationName is what the name of a constant ends in that is a duration, so that it says which of
// the times of its subject it is. A unit of time is its own name.
var durationName = regexp.MustCompile(`(?i)(timeouts?|deadline|interval|pause|delay|backoff|window|grace|limit|age|` +
	`lifetime|ttl|time|slack|skew|latency|day|week|year)$`)

// CheckDurations returns the constants of the programs' source files below root that are durations and whose names
// do not say of which kind.
func CheckDurations(root string) ([]string, error) {
	var wrong []string
	err := Text(root, func(name string, content []byte) error {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(name, "e2e/") || strings.Contains("/"+name, "/testdata/") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, content, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("read the constants of %s: %w", name, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				return true
			}
			for _, spec := range decl.Specs {
				for _, id := range durations(spec.(*ast.ValueSpec)) {
					if !durationName.MatchString(id.Name) {
						wrong = append(wrong, fmt.Sprintf("%s: a duration whose name, %s, does not end in what it is (%s)",
							set.Position(id.Pos()), id.Name, "Timeout, Interval, Grace, Limit, Age and so on"))
					}
				}
			}
			return true
		})
		return nil
	})
	return wrong, err
}

// durations returns the names in spec whose values are made with the units of package time.
func durations(spec *ast.ValueSpec) []*ast.Ident {
	var ids []*ast.Ident
	for i, v := range spec.Values {
		is := false
		ast.Inspect(v, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			is = is || ok && x.Name == "time" && timeUnit.MatchString(s.Sel.Name)
			return true
		})
		if is && i < len(spec.Names) {
			ids = append(ids, spec.Names[i])
		}
	}
	return ids
}

// timeUnit matches the constants of package time that are durations.
var timeUnit = regexp.MustCompile(`^(Nanosecond|Microsecond|Millisecond|Second|Minute|Hour)$`)
