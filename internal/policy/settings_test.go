package policy

import (
	"reflect"
	"testing"
)

// TestSettingsSum: two processes with the same Settings have the same sum, so Settings must not
// contain pointers.
func TestSettingsSum(t *testing.T) {
	var check func(of reflect.Type, path string)
	check = func(of reflect.Type, path string) {
		switch of.Kind() {
		case reflect.Struct:
			for i := range of.NumField() {
				check(of.Field(i).Type, path+"."+of.Field(i).Name)
			}
		case reflect.Bool, reflect.Int, reflect.Uint16, reflect.String:
		default:
			t.Errorf("%s is a %v", path, of)
		}
	}
	check(reflect.TypeFor[Settings](), "Settings")
	if (Settings{bogus: "192.0.2.1"}).Sum() == (Settings{ignored: "192.0.2.1"}).Sum() {
		t.Error("different Settings have the same sum")
	}
}
