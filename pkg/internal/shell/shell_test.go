package shell

import (
	"os/exec"
	"testing"
)

func TestQuoteIsOneWordToSh(t *testing.T) {
	for _, word := range []string{
		"", "a", "--a=b", "--a=b c", "--a='", "'", "''", `--a="$HOME"`, "--a=[x]*", "--a=\\", "--a=#;&|", "~", "a\nb", "^a",
		"{a,b}", "%@+", "é",
	} {
		out, err := exec.Command("sh", "-c", "printf '<%s>' "+Quote(word)).Output()
		if err != nil || string(out) != "<"+word+">" {
			t.Errorf("%q comes out as %q (%v)", word, out, err)
		}
	}
}

func TestPlainWordsStayAsTheyAre(t *testing.T) {
	for _, word := range []string{"etcdadm", "--a=b,c", "https://10.0.0.1:2379", "name@host", "50%", "a+b"} {
		if got := Quote(word); got != word {
			t.Errorf("%q is written as %s", word, got)
		}
	}
	if got := Line([]string{"etcdadm", "--a=b c", ""}); got != "etcdadm '--a=b c' ''" {
		t.Errorf("the line is %s", got)
	}
}

func TestValuesOfAssignments(t *testing.T) {
	for _, word := range []string{"", "https://[::1]:2379", "a b", "^", "'", "$HOME", "*"} {
		out, err := exec.Command("sh", "-c", "A="+Value(word)+"; printf '<%s>' \"$A\"").Output()
		if err != nil || string(out) != "<"+word+">" {
			t.Errorf("%q comes out as %q (%v)", word, out, err)
		}
	}
	if got := Value("https://[::1]:2379"); got != "https://[::1]:2379" {
		t.Errorf("an address is written as %s", got)
	}
}
