package hygiene

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// public are the packages below pkg/ that programs of others may use. All others can
// change freely. docs/etcdadm-go.md lists them.
var public = []string{
	"certs", "cluster", "cluster/plan", "coordination/lease", "etcd/etcdclient", "etcd/etcdrelease", "etcd/etcdutl",
	"etcd/etcdversion", "etcd/snapshot", "host/configfile", "host/initfiles", "host/initsystem",
	"host/machine", "host/operate",
}

// CheckPublic returns the packages that are not for others and yet are in the exported
// declarations of one that is.
func CheckPublic(root string) ([]string, error) {
	var wrong []string
	for _, name := range public {
		files, err := filepath.Glob(filepath.Join(root, "pkg", name, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, used := range exposes(parsed) {
				wrong = append(wrong, fmt.Sprintf("pkg/%s, which is public, shows pkg/%s, which is not", name, used))
			}
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong), nil
}

// exposes returns the packages of the project that are not public and in the exported
// declarations of a file.
func exposes(f *ast.File) (list []string) {
	ours := map[string]string{}
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		name, own := strings.CutPrefix(path, Prefix+"pkg/")
		if err != nil || !own || slices.Contains(public, name) {
			continue
		}
		short := filepath.Base(name)
		if i.Name != nil {
			short = i.Name.Name
		}
		ours[short] = name
	}
	for _, d := range f.Decls {
		for _, n := range exported(d) {
			ast.Inspect(n, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && ours[x.Name] != "" {
						list = append(list, ours[x.Name])
					}
				}
				return true
			})
		}
	}
	return list
}

// exported returns what a declaration shows: the signatures of exported functions, and of
// exported types what is exported.
func exported(d ast.Decl) (list []ast.Node) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
			list = append(list, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok || !t.Name.IsExported() {
				continue
			}
			fields, ok := t.Type.(*ast.StructType)
			if !ok {
				list = append(list, t.Type)
				continue
			}
			for _, f := range fields.Fields.List {
				if len(f.Names) == 0 || f.Names[0].IsExported() {
					list = append(list, f.Type)
				}
			}
		}
	}
	return list
}

// receiver returns the name of a receiver's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
