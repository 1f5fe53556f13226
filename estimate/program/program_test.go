package program

import (
	"reflect"
	"testing"
)

// Calls share their arguments where these are none, or no more than in place: with any other they have their own.
func TestArgsKept(t *testing.T) {
	if (Args{}).Kept() != Plain || (Args{Inplace: true}).Kept() != inPlace {
		t.Error("plain arguments are not shared")
	}
	for i := range reflect.TypeFor[Args]().NumField() {
		a := Args{}
		v, name := reflect.ValueOf(&a).Elem().Field(i), reflect.TypeFor[Args]().Field(i).Name
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Uint8:
			v.SetUint(1)
		case reflect.Float64:
			v.SetFloat(1)
		case reflect.String:
			v.SetString("a")
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("field %s is of another kind", name)
		}
		if got := a.Kept(); got == Plain || got == inPlace && name != "Inplace" || !reflect.DeepEqual(*got, a) {
			t.Errorf("with %s alone %+v is kept", name, *got)
		}
		if again := a; !a.Same(&again) || a.Same(&Args{}) {
			t.Errorf("with %s alone arguments are the same as none, or not as themselves", name)
		}
	}
	if !reflect.DeepEqual(*Plain, Args{}) {
		t.Error("somebody wrote to the shared arguments")
	}
}
