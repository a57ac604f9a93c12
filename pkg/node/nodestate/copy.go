package nodestate

import "reflect"

// copied returns a deep copy of s. The state is read many times a second, so it does not take the
// way over JSON, which [State.clone] takes for what is to be written.
func (s State) copied() State {
	own(reflect.ValueOf(&s).Elem())
	return s
}

// own gives v memory of its own behind each pointer, slice and map in it. Fields that are not
// exported stay shared: those of times and versions, which nobody changes.
func own(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		n := reflect.New(v.Type().Elem())
		n.Elem().Set(v.Elem())
		own(n.Elem())
		v.Set(n)
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		n := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(n, v)
		for i := range n.Len() {
			own(n.Index(i))
		}
		v.Set(n)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				own(f)
			}
		}
	}
}
