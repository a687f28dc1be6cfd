package helper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// The names of the tables, of family inet. The second one outlives the helper.
const (
	tableName   = "node-dns"
	repliesName = "node-dns-replies"
)

// ownerFlag makes the kernel remove a table when the socket that created it closes, and protects
// the table from other programs (NFT_TABLE_F_OWNER, since Linux 5.12).
const ownerFlag = 0x2

// table is the nf_tables table with the rules. It belongs to one goroutine.
type table struct {
	conn    *nftables.Conn
	raw     *netlink.Conn // the socket of conn
	table   *nftables.Table
	chains  map[string]*nftables.Chain
	owned   bool // the kernel removes the table with the socket
	sockets sockets
}

// openTable creates the table, with the rule for the helper's own queries only. It replaces a table
// that a helper left behind on a kernel without ownerFlag. It fails if another helper runs.
func openTable() (*table, error) {
	t := &table{table: &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}, chains: map[string]*nftables.Chain{}}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		t.raw = c
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("opening nf_tables: %w", err)
	}
	t.conn = conn
	if err := t.create(); err != nil {
		return nil, errors.Join(err, conn.CloseLasting())
	}
	for t.sockets = boundSockets; t.sockets > noSockets && !t.accepts(arriving(t.sockets)); t.sockets-- {
	}
	if err := t.set(nil); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// accepts reports whether the kernel accepts such rules. The table for the trial exists in one
// transaction only.
func (t *table) accepts(rules [][]expr.Any) bool {
	trial := t.conn.AddTable(&nftables.Table{Name: tableName + "-trial", Family: nftables.TableFamilyINet})
	in := t.conn.AddChain(&nftables.Chain{Name: rawIn.name, Table: trial, Type: rawIn.kind, Hooknum: rawIn.hook, Priority: &rawIn.priority})
	for _, exprs := range rules {
		t.conn.AddRule(&nftables.Rule{Table: trial, Chain: in, Exprs: exprs})
	}
	t.conn.DelTable(trial)
	return t.conn.Flush() == nil
}

func (t *table) create() error {
	if err := removeTable(t.conn); err != nil {
		return err
	}
	err := t.createOwned()
	if err == nil {
		t.owned = true
		return nil
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("creating the table inet %s: %w", tableName, err)
	}
	t.conn.AddTable(t.table)
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("creating the table inet %s: %w", tableName, err)
	}
	return nil
}

// createOwned sends the batch itself, because the library sends no flags with a new table (v0.3.0).
func (t *table) createOwned() error {
	data, err := ownedTable()
	if err != nil {
		return err
	}
	const subsystem = unix.NFNL_SUBSYS_NFTABLES
	// struct nfgenmsg: family, version, resource (linux/netfilter/nfnetlink.h)
	header := func(family byte, resource byte) []byte { return []byte{family, unix.NFNETLINK_V0, 0, resource} }
	_, err = t.raw.SendMessages([]netlink.Message{
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: netlink.Request}, Data: header(unix.AF_UNSPEC, subsystem)},
		{
			Header: netlink.Header{Type: subsystem<<8 | unix.NFT_MSG_NEWTABLE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
			Data:   append(header(unix.NFPROTO_INET, 0), data...),
		},
		{Header: netlink.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: netlink.Request}, Data: header(unix.AF_UNSPEC, subsystem)},
	})
	if err != nil {
		return err
	}
	_, err = t.raw.Receive()
	return err
}

// ownedTable returns the attributes of the table.
func ownedTable() ([]byte, error) {
	attributes := netlink.NewAttributeEncoder()
	attributes.String(unix.NFTA_TABLE_NAME, tableName)
	attributes.ByteOrder = binary.BigEndian
	attributes.Uint32(unix.NFTA_TABLE_FLAGS, ownerFlag)
	return attributes.Encode()
}

// set replaces all rules in one transaction.
func (t *table) set(list []served) error {
	t.conn.FlushTable(t.table)
	for _, r := range rulesFor(list, t.sockets) {
		t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: t.chain(r.chain), Exprs: r.exprs})
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("changing the rules of table inet %s: %w", tableName, err)
	}
	return nil
}

// chain returns a chain of the table. It adds a missing one to the transaction.
func (t *table) chain(c chain) *nftables.Chain {
	have := t.chains[c.name]
	if have == nil {
		have = t.conn.AddChain(&nftables.Chain{Name: c.name, Table: t.table, Type: c.kind, Hooknum: c.hook, Priority: &c.priority})
		t.chains[c.name] = have
	}
	return have
}

// close removes the table.
func (t *table) close() error {
	t.conn.DelTable(t.table)
	err := t.conn.Flush()
	return errors.Join(err, t.conn.CloseLasting())
}

// setReplies replaces the table with the rules for packets from these addresses, and for those to
// other ports of closed. Without addresses it removes the table.
func setReplies(addrs, closed []netip.Addr) error {
	return setSupported(replaceReplies, addrs, closed)
}

// setSupported leaves out what the kernel does not have, such as translation in tables of family
// inet (Linux 5.2). Without that it still keeps pods from other ports.
func setSupported(replace func([]rule) error, addrs, closed []netip.Addr) (err error) {
	rules, ports := replyRules(addrs), portRules(closed)
	for _, try := range [][]rule{slices.Concat(rules, sourceRules(addrs), ports), slices.Concat(rules, ports), rules} {
		if err = replace(try); err == nil {
			return nil
		}
	}
	return fmt.Errorf("changing the table inet %s: %w", repliesName, err)
}

func replaceReplies(rules []rule) error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	replies := conn.AddTable(&nftables.Table{Name: repliesName, Family: nftables.TableFamilyINet})
	conn.DelTable(replies) // it exists now
	if len(rules) > 0 {
		conn.AddTable(replies)
	}
	chains := map[string]*nftables.Chain{}
	for _, r := range rules {
		if chains[r.chain.name] == nil {
			c := r.chain
			chains[c.name] = conn.AddChain(&nftables.Chain{Name: c.name, Table: replies, Type: c.kind, Hooknum: c.hook, Priority: &c.priority})
		}
		conn.AddRule(&nftables.Rule{Table: replies, Chain: chains[r.chain.name], Exprs: r.exprs})
	}
	return conn.Flush()
}

// errBusy means that another helper intercepts.
var errBusy = errors.New("the table inet " + tableName + " belongs to a process: node-dns-intercept already runs")

// removeTable removes the table of a helper that has ended. There is one only on kernels without
// ownerFlag.
func removeTable(conn *nftables.Conn) error {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("listing the nf_tables tables: %w", err)
	}
	for _, have := range tables {
		if have.Name != tableName {
			continue
		}
		conn.DelTable(have)
		err := conn.Flush()
		if errors.Is(err, unix.EPERM) {
			return errBusy
		}
		if err != nil {
			return fmt.Errorf("removing the table inet %s: %w", tableName, err)
		}
	}
	return nil
}
