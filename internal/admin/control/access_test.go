package control

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// admins is the ID of AdminGroup in these tests.
const admins = 4713

func isAdmins() (int, bool) { return admins, true }

func TestLevelOf(t *testing.T) {
	none := func() (int, bool) { return 0, false }
	for _, test := range []struct {
		name  string
		peer  peer
		group func() (int, bool)
		want  level
	}{
		{"root", peer{UID: 0, Groups: []int{0}}, none, admin},
		{"the daemon's user", peer{UID: os.Geteuid(), Groups: []int{1}}, none, admin},
		{"a member", peer{UID: 1234, Groups: []int{100, admins}}, isAdmins, admin},
		{"a member by primary group", peer{UID: 1234, Groups: []int{admins}}, isAdmins, admin},
		{"a user", peer{UID: 1234, Groups: []int{100}}, isAdmins, anyone},
		{"a user without the group on the system", peer{UID: 1234, Groups: []int{100}}, none, anyone},
		{"a user in root's group", peer{UID: 1234, Groups: []int{0}}, none, anyone},
		{"no groups", peer{UID: 65534}, isAdmins, anyone},
	} {
		if got := levelOf(test.peer, test.group); got != test.want {
			t.Errorf("%s: level %d, want %d", test.name, got, test.want)
		}
	}
}

// TestRemembered proves that /etc/group is read at most once a second and that a new group is
// noticed.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		group := remembered(func() (int, bool) {
			read++
			return admins, read > 1
		})
		for range 100 {
			if _, exists := group(); exists {
				t.Fatal("got a group before it was created")
			}
		}
		time.Sleep(groupAge + time.Millisecond)
		if id, exists := group(); id != admins || !exists || read != 2 {
			t.Errorf("group %d, %v, read %d times", id, exists, read)
		}
	})
}

// whole is a daemon that supports every request.
var whole = API{
	Status:        func(context.Context) Status { return Status{PID: 7} },
	ServerHistory: func(context.Context) ServerHistory { return ServerHistory{} },
	SlowNames:     func(context.Context) SlowNames { return SlowNames{} },
	CacheStats:    func(context.Context) CacheStats { return CacheStats{} },
	Complete:      func(context.Context, CompleteQuestion) (Completions, error) { return Completions{}, nil },
	RecentNames:   func(context.Context) RecentNames { return RecentNames{} },
	Query:         func(context.Context, Question) (Answer, error) { return Answer{}, nil },
	Search:        func(context.Context, SearchQuestion) (Search, error) { return Search{}, nil },
	CacheDump:     func(context.Context, CachePart, func(CacheEntry) error) error { return nil },
	CacheFlush:    func(context.Context, CachePart) (CacheFlushed, error) { return CacheFlushed{}, nil },
	LogQueries:    func(context.Context, LogQueriesQuestion) (LogQueries, error) { return LogQueries{}, nil },
	Monitor: func(context.Context, MonitorFilter, func(MonitorEvent) error, func() error) error {
		return nil
	},
}

// forAnyone lists the requests that any local user may send.
var forAnyone = []string{"GET /v1/status", "GET /v1/servers/history", "GET /v1/cache/stats", "POST /v1/query", "POST /v1/search"}

// TestVerbs proves that changes and data about other clients are refused to callers who are not
// admins, and to requests without a known caller.
func TestVerbs(t *testing.T) {
	mux := whole.handler()
	status := func(ctx context.Context, pattern, body string) int {
		method, path, _ := strings.Cut(pattern, " ")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx))
		return w.Code
	}
	as := func(l level) context.Context { return context.WithValue(t.Context(), callerKey{}, caller{1234, l}) }
	seen := []string{}
	for _, v := range whole.verbs() {
		want := http.StatusForbidden
		if slices.Contains(forAnyone, v.pattern) {
			want = http.StatusOK
			seen = append(seen, v.pattern)
		}
		if got := status(as(admin), v.pattern, ""); got != http.StatusOK {
			t.Errorf("%s by an admin: got status %d", v.pattern, got)
		}
		for name, ctx := range map[string]context.Context{"a user": as(anyone), "nobody": t.Context()} {
			if got := status(ctx, v.pattern, ""); got != want {
				t.Errorf("%s by %s: got status %d, want %d", v.pattern, name, got, want)
			}
		}
	}
	if diff := cmp.Diff(forAnyone, seen); diff != "" {
		t.Error(diff)
	}
	for _, question := range []string{`{"namespace": "a", "pod": "b"}`, `{"as": "10.0.0.1"}`} {
		if user, root := status(as(anyone), "POST /v1/search", question), status(as(admin), "POST /v1/search", question); user != http.StatusForbidden || root != http.StatusOK {
			t.Errorf("a pod's resolv.conf by %s: got status %d, and as an admin %d", question, user, root)
		}
	}
	for _, question := range []string{`{"as": "10.0.0.1"}`, `{"fresh": true}`} {
		if user, root := status(as(anyone), "POST /v1/query", question), status(as(admin), "POST /v1/query", question); user != http.StatusForbidden || root != http.StatusOK {
			t.Errorf("%s: got status %d, and as an admin %d", question, user, root)
		}
	}
}

// TestStatusNamesClients proves that only admins see clients and queried names in the status.
func TestStatusNamesClients(t *testing.T) {
	mux := API{Status: func(context.Context) Status { return busy() }}.handler()
	for l, want := range map[level]bool{anyone: false, admin: true} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", statusPath, nil).WithContext(context.WithValue(t.Context(), callerKey{}, caller{1234, l})))
		for _, text := range []string{"10.128.0.7", "shop/web-0", "10.129.0.9", "shop/shell", "db.corp.example."} {
			if got := strings.Contains(w.Body.String(), text); got != want {
				t.Errorf("level %v: contains %s: %v", l, text, got)
			}
		}
	}
}

// asker connects as the user uid with these groups, the first of which is the primary group. It
// sets the credentials of one thread by system call, because package syscall would change the whole
// process.
func asker(t *testing.T, path string, uid int, groups ...uint32) net.Conn {
	t.Helper()
	var conn net.Conn
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		gid, user := uintptr(groups[0]), uintptr(uid)
		for _, call := range [][4]uintptr{
			{unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0}, {unix.SYS_SETRESGID, gid, gid, gid}, {unix.SYS_SETRESUID, user, user, user},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				err = errno
				return
			}
		}
		conn, err = net.Dial("unix", path)
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// answerOn sends a request on conn and returns the status code, or 0 if the connection was closed.
func answerOn(t *testing.T, conn net.Conn, request string) (code int, text string) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, "http://node-dns"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Write(conn) // a closed connection shows up below
	response, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(body)
}

// listenForAll opens a control socket that every user can reach.
func listenForAll(t *testing.T) (string, net.Listener) {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Skip(t, "becomes other users, which takes root")
	}
	root := lab.ShortDir(t)
	path := SocketPath(root)
	listener, err := Listen(path)
	if err == nil {
		err = errors.Join(os.Chmod(root, 0o755), os.Chmod(filepath.Dir(path), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, listener
}

// serveAll serves whole on such a socket.
func serveAll(t *testing.T) string {
	t.Helper()
	path, listener := listenForAll(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serveWith(ctx, listener, whole, isAdmins) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}

// TestWhoAsks proves that the kernel's credentials decide, including one supplementary group among
// many.
func TestWhoAsks(t *testing.T) {
	path := serveAll(t)
	many := make([]uint32, 1000)
	for i := range many {
		many[i] = uint32(10_000 + i)
	}
	for _, test := range []struct {
		name    string
		uid     int
		groups  []uint32
		isAdmin bool
	}{
		{"root", 0, []uint32{0}, true},
		{"a member", 1234, []uint32{100, admins}, true},
		{"a member of many groups", 1234, append(slices.Clone(many), admins), true},
		{"a member by primary group", 1234, []uint32{admins}, true},
		{"a user", 1234, []uint32{100}, false},
		{"a user of many groups", 1234, many, false},
		{"nobody", 65534, []uint32{65534}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := asker(t, path, test.uid, test.groups...)
			if code, _ := answerOn(t, conn, "GET /v1/status"); code != http.StatusOK {
				t.Errorf("status: got code %d", code)
			}
			want, text := http.StatusForbidden, errNotAdmin.Error()
			if test.isAdmin {
				want, text = http.StatusOK, ""
			}
			for _, request := range []string{"POST /v1/cache/flush", "POST /v1/cache/dump", "POST /v1/log-queries", "POST /v1/monitor"} {
				if code, said := answerOn(t, conn, request); code != want || !strings.Contains(said, text) {
					t.Errorf("%s: got code %d, want %d: %s", request, code, want, said)
				}
			}
		})
	}
}

// TestGuestsLeaveRoom proves that idle connections block neither root nor other users, and free
// their slots when they are closed. Connections without a slot are closed after guestPatience.
func TestGuestsLeaveRoom(t *testing.T) {
	path, listener := listenForAll(t)
	e := &callerListener{Listener: listener, adminGroup: isAdmins, guests: newGuestSlots(20 * time.Millisecond)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := e.Accept()
			if err != nil {
				return
			}
			go func() { // until the client disconnects
				defer conn.Close()
				if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
					return
				}
				conn.Write([]byte("x"))
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	defer func() {
		listener.Close()
		<-done
	}()
	enter := func(uid int) (net.Conn, bool) {
		conn := asker(t, path, uid, uint32(uid))
		conn.Write([]byte("x"))
		n, _ := conn.Read(make([]byte, 1)) // EOF if the connection was closed
		return conn, n == 1
	}
	in := map[int]int{}
	var held []net.Conn
	for _, uid := range []int{1001, 1001, 1001, 1001, 1001, 1002, 1002, 1003, 1004, 1005} {
		conn, ok := enter(uid)
		if held = append(held, conn); ok {
			in[uid]++
		}
	}
	if diff := cmp.Diff(map[int]int{1001: maxGuestsOfUser, 1002: 2, 1003: 1, 1004: 1}, in); diff != "" {
		t.Errorf("accepted connections (-want +got):\n%s", diff)
	}
	for range maxClients {
		if conn, ok := enter(0); !ok {
			t.Error("root cannot connect")
		} else {
			defer conn.Close()
		}
	}
	for _, conn := range held {
		conn.Close()
	}
	if !lab.Poll(20*time.Second, func() bool {
		e.guests.mu.Lock()
		defer e.guests.mu.Unlock()
		return e.guests.total == 0 && len(e.guests.open) == 0 && len(e.guests.waiting) == 0
	}) {
		t.Errorf("slots are not freed: %v", e.guests.open)
	}
}

// TestPeerOf proves that a process that connects to itself gets its own credentials. access_test.go
// covers other users and groups.
func TestPeerOf(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p, err := peerOf(conn.(*net.UnixConn))
	if err != nil || p.PID != os.Getpid() || p.UID != os.Geteuid() || !p.isIn(os.Getegid()) {
		t.Errorf("got %+v, %v", p, err)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		if !p.isIn(group) {
			t.Errorf("got %+v, which is not in group %d", p, group)
		}
	}
	if p.isIn(1 << 30) {
		t.Errorf("got %+v, which is in every group", p)
	}
	conn.Close()
	if p, err := peerOf(conn.(*net.UnixConn)); err == nil {
		t.Errorf("got %+v from a closed connection", p)
	}
}
