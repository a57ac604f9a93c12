package nodestate

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// filled sets everything in v that can be set, and reports the kinds that own does not know.
func filled(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(t, v.Index(i), path+"[]")
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				filled(t, f, path+"."+v.Type().Field(i).Name)
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	default:
		t.Errorf("%s is a %s, of which no copy is made", path, v.Kind())
	}
}

// spoil changes everything that filled has set.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		spoil(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.SetZero()
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				spoil(f)
			}
		}
	default:
		v.SetZero()
	}
}

// What is done to a copy, at whatever depth, is not done to the state.
func TestACopyIsDeep(t *testing.T) {
	var s State
	filled(t, reflect.ValueOf(&s).Elem(), "State")
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	c := s.copied()
	if !reflect.DeepEqual(c, s) {
		t.Errorf("the copy is %+v, not %+v", c, s)
	}
	spoil(reflect.ValueOf(&c).Elem())
	if after, _ := json.Marshal(s); string(after) != string(before) {
		t.Errorf("it has changed the state from\n%s\nto\n%s", before, after)
	}
}

func BenchmarkState(b *testing.B) {
	var s State
	filled(&testing.T{}, reflect.ValueOf(&s).Elem(), "State")
	b.ReportAllocs()
	for b.Loop() {
		_ = s.copied()
	}
}
