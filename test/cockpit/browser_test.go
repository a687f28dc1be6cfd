package cockpit

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// browser is a headless Chromium with one page, driven by the Chrome DevTools Protocol over pipes:
// JSON messages that end with a NUL.
type browser struct {
	t       testing.TB
	to      *os.File
	session string // of the page

	mu         sync.Mutex // guards the fields below
	last       int        // number of the last command
	waiting    map[int]chan reply
	complaints []string // errors in the page's console, and violations of its Content-Security-Policy
}

// reply is a message from Chromium: the result of a command, or an event.
type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// startBrowser starts Chromium in a namespace. Chromium ends with the test.
func startBrowser(t testing.TB, in *lab.Namespace) *browser {
	t.Helper()
	lab.Need(t, "chromium")
	commands, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, replies, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "chromium.log"))
	if err != nil {
		t.Fatal(err)
	}
	// The flags after --no-sandbox, which root needs, keep Chromium off the Internet.
	cmd := exec.Command("ip", "netns", "exec", in.Name, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--disable-breakpad", "--remote-debugging-pipe", "--user-data-dir="+lab.ShortDir(t), "about:blank")
	cmd.ExtraFiles = []*os.File{commands, replies} // descriptors 3 and 4
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	replies.Close()
	b := &browser{t: t, to: to, waiting: map[int]chan reply{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.read(from)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("---- chromium\n%s", text)
		}
		_ = b.call("Browser.close", nil, nil) // fails if Chromium has ended
		cmd.Process.Kill()
		cmd.Wait()
		<-done
		errors.Join(to.Close(), from.Close(), log.Close())
	})
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.must("Target.createTarget", args{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.must("Target.attachToTarget", args{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Audits"} {
		b.must(domain+".enable", nil, nil)
	}
	return b
}

type args map[string]any

// read passes replies to the waiting calls, until Chromium ends.
func (b *browser) read(from *os.File) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			break
		}
		var r reply
		if err := json.Unmarshal(text[:len(text)-1], &r); err != nil {
			continue
		}
		b.mu.Lock()
		if waiting := b.waiting[r.ID]; r.ID > 0 && waiting != nil {
			delete(b.waiting, r.ID)
			waiting <- r
		} else if complaint := complaintOf(r); complaint != "" {
			b.complaints = append(b.complaints, complaint)
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, waiting := range b.waiting {
		close(waiting)
	}
	b.waiting = nil
}

// complaintOf returns an event that only a faulty page causes, or "" for other events.
func complaintOf(r reply) string {
	var event struct {
		Type  string `json:"type"`
		Entry struct {
			Level string `json:"level"`
		} `json:"entry"`
		Issue struct {
			Code string `json:"code"`
		} `json:"issue"`
	}
	if err := json.Unmarshal(r.Params, &event); err != nil {
		return ""
	}
	switch {
	case r.Method == "Runtime.exceptionThrown",
		r.Method == "Runtime.consoleAPICalled" && (event.Type == "error" || event.Type == "warning" || event.Type == "assert"),
		r.Method == "Log.entryAdded" && (event.Entry.Level == "error" || event.Entry.Level == "warning"),
		// Chromium reports that cockpit.js has an unload handler, which is deprecated.
		r.Method == "Audits.issueAdded" && event.Issue.Code != "DeprecationIssue":
		return r.Method + " " + string(r.Params)
	}
	return ""
}

// call sends a command and decodes its result into result; nil ignores the result.
func (b *browser) call(method string, params args, result any) error {
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return errors.New("chromium has ended")
	}
	b.last++
	command := args{"id": b.last, "method": method, "params": params}
	if params == nil {
		command["params"] = args{}
	}
	if b.session != "" && !strings.HasPrefix(method, "Target.") && !strings.HasPrefix(method, "Browser.") {
		command["sessionId"] = b.session
	}
	waiting := make(chan reply, 1)
	b.waiting[b.last] = waiting
	b.mu.Unlock()
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return fmt.Errorf("sending %s: %w", method, err)
	}
	select {
	case r, ok := <-waiting:
		switch {
		case !ok:
			return errors.New("chromium has ended")
		case r.Error != nil:
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		case result != nil:
			return json.Unmarshal(r.Result, result)
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s: no reply", method)
	}
}

func (b *browser) must(method string, params args, result any) {
	b.t.Helper()
	if err := b.call(method, params, result); err != nil {
		b.t.Fatal(err)
	}
}

// eval evaluates a JavaScript expression in the page and decodes its value into value; nil ignores
// the value.
func (b *browser) eval(expression string, value any) {
	b.t.Helper()
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	b.must("Runtime.evaluate", args{"expression": expression, "awaitPromise": true, "returnByValue": true}, &got)
	if got.Exception != nil {
		b.t.Fatalf("%s: %s", expression, got.Exception)
	}
	if value != nil && got.Result.Value != nil {
		if err := json.Unmarshal(got.Result.Value, value); err != nil {
			b.t.Fatalf("%s: %v", expression, err)
		}
	}
}

// text returns the visible text of the element with this id, or "" if there is none.
func (b *browser) text(id string) (text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`document.getElementById(%q)?.innerText ?? ""`, id), &text)
	return text
}

// awaitText waits until the text of an element contains all these parts.
func (b *browser) awaitText(id string, parts ...string) {
	b.t.Helper()
	var last string
	if !lab.Poll(time.Minute, func() bool {
		time.Sleep(50 * time.Millisecond)
		last = b.text(id)
		for _, part := range parts {
			if !strings.Contains(last, part) {
				return false
			}
		}
		return true
	}) {
		b.t.Fatalf("#%s does not show %q:\n%s", id, parts, last)
	}
}

// open loads an address and waits until the page is complete.
func (b *browser) open(url string) {
	b.t.Helper()
	b.must("Page.navigate", args{"url": url}, nil)
	if !lab.Poll(time.Minute, func() bool {
		time.Sleep(50 * time.Millisecond)
		var state, at string
		b.eval("document.readyState", &state)
		b.eval("location.href", &at)
		return state == "complete" && at != "about:blank" || url == "about:blank"
	}) {
		b.t.Fatalf("%s does not load", url)
	}
}

// click waits until the first element of a selector is visible and enabled, and clicks on it.
func (b *browser) click(selector string) {
	b.t.Helper()
	if !lab.Poll(time.Minute, func() (isDone bool) {
		b.eval(fmt.Sprintf(`(() => {
			const element = document.querySelector(%q);
			const isReady = element?.checkVisibility() && !element.disabled;
			if (isReady) {
				element.click();
			}
			return isReady;
		})()`, selector), &isDone)
		return isDone
	}) {
		b.t.Fatalf("%s cannot be clicked", selector)
	}
}

// enter sets the value of a field or a select.
func (b *browser) enter(id, value string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`{ const field = document.getElementById(%q); field.value = %q; field.dispatchEvent(new Event("change", { bubbles: true })); }`, id, value), nil)
}

// resize sets the size of the page and its style: light or dark.
func (b *browser) resize(width, height int, style string) {
	b.t.Helper()
	b.must("Emulation.setDeviceMetricsOverride", args{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.must("Emulation.setEmulatedMedia", args{"features": []args{{"name": "prefers-color-scheme", "value": style}}}, nil)
}

// unnamed returns the roles of regions, tables and controls without a name for screen readers.
func (b *browser) unnamed() (roles []string) {
	b.t.Helper()
	type value struct {
		Value any `json:"value"`
	}
	var tree struct {
		Nodes []struct {
			Ignored    bool `json:"ignored"`
			Role, Name value
		} `json:"nodes"`
	}
	b.must("Accessibility.getFullAXTree", nil, &tree)
	named := 0
	for _, node := range tree.Nodes {
		role, _ := node.Role.Value.(string)
		if node.Ignored || !slices.Contains([]string{"button", "textbox", "combobox", "region", "table", "DisclosureTriangle"}, role) {
			continue
		}
		if node.Name.Value == nil || node.Name.Value == "" {
			roles = append(roles, role)
		} else {
			named++
		}
	}
	if named < 20 {
		b.t.Errorf("%d things have a name: the tree is not what it should be", named)
	}
	return roles
}

// picture writes the whole page to name.png in the directory of -cockpit.shots.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	var got struct {
		Data string `json:"data"`
	}
	b.must("Page.captureScreenshot", args{"captureBeyondViewport": true}, &got)
	data, err := base64.StdEncoding.DecodeString(got.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), data, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// checkComplaints fails the test if the page had an error since the last call.
func (b *browser) checkComplaints() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		b.t.Errorf("the browser reports: %s", complaint)
	}
	b.complaints = nil
}
