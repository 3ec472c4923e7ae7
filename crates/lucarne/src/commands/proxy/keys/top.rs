//! Keys at the top of the file.

use std::time::Duration;

use lucarne_settings::form::{Boolean, Durations, Shape, Sizes};
use lucarne_settings::{Key, Table};

use super::{entries, limits, observe, upstream};

pub(crate) static TABLE: Table = Table::of(&[
    &LISTEN,
    &ADMIN,
    &CA,
    &KEYTYPE,
    &LEAFKEY,
    &LIFETIME,
    &STORE,
    &STOREDIRECTORY,
    &STOREMEMORY,
    &CERTIFICATES,
    &RULES,
    &DEFAULT,
    &ALLOW,
    &DENY,
    &PORTS,
    &NETWORKS,
    &PRIVATE,
    &RESOLVE,
    &USERS,
    &UPSTREAM,
    &OBSERVE,
    &LIMITS,
]);

pub(crate) static LISTEN: Key<Shape> = Key::new(
    "listen",
    Shape::List(&Shape::Text),
    "`127.0.0.1:3128`",
    "addresses for clients: `host:port`, or `:port` for every address; a list",
)
.beside("`--listen`");

pub(crate) static ADMIN: Key<Shape> = Key::new(
    "admin",
    Shape::Text,
    "none",
    "address of the page, its JSON and `/metrics`",
)
.beside("`--admin`");

pub(crate) static CA: Key<Shape> = Key::new(
    "ca",
    Shape::Text,
    "`lucarne-ca`",
    "directory of the CA: `ca.pem` is for clients to trust, `ca-key.pem` is secret; created at the \
     first start, or [your own](../how-to/proxy.md#your-own-ca-and-certificates)",
)
.beside("`--ca`");

pub(crate) static KEYTYPE: Key<Shape> = Key::new(
    "keytype",
    Shape::Text,
    "`p256`",
    "keys of minted certificates: `p256`, `p384`, `p521`, `rsa2048`, `rsa3072`, `rsa4096`, \
     `ed25519` (no browser accepts `ed25519`)",
)
.beside("`--key-type`");

pub(crate) static LEAFKEY: Key<Shape> = Key::new(
    "leafkey",
    Shape::Text,
    "`shared` for RSA keys, else `per-certificate`",
    "one key per certificate, or one key for all certificates of a run; with a shared key an RSA \
     certificate costs one signature, and no new key",
)
.beside("`--leaf-key`");

pub(crate) static LIFETIME: Key<Durations> = Key::new(
    "lifetime",
    // Every client refuses a certificate that has already expired.
    Durations::within(Duration::from_nanos(1), Duration::MAX),
    "`720h`",
    "lifetime of minted certificates",
)
.beside("`--lifetime`");

pub(crate) static STORE: Key<Shape> = Key::new(
    "store",
    Shape::Text,
    "`memory`; with a directory `layered`",
    "`memory`, `disk`, `layered` (both), or `none` (a new certificate for each connection, for \
     comparisons)",
)
.beside("`--store`");

pub(crate) static STOREDIRECTORY: Key<Shape> = Key::new(
    "storedirectory",
    Shape::Text,
    "none",
    "directory of `disk` and `layered`; several proxies can share it",
)
.beside("`--store-directory`");

pub(crate) static STOREMEMORY: Key<Sizes> = Key::new(
    "storememory",
    Sizes::within(1 << 20, 1 << 40).former_numbers(1 << 20),
    "`64MiB`",
    "memory for certificates; one certificate takes about 9 kB",
)
.beside("`--store-memory`");

pub(crate) static CERTIFICATES: Key<Shape> = Key::new(
    "certificates",
    Shape::List(&Shape::Map(&entries::PAIR)),
    "none",
    "list of your own certificates, served instead of minted ones: `certificate`, `key` (PEM \
     files; without `key`, one file contains both), `host` (a pattern; default: all hosts that the \
     certificate covers). As a flag: `[HOST=]CERTIFICATE[,KEY]`",
)
.beside("`--certificate`");

pub(crate) static RULES: Key<Shape> = Key::new(
    "rules",
    Shape::List(&Shape::Map(&entries::RULE)),
    "none",
    "list of `host` (a pattern) and `action` (`intercept` or `tunnel`)",
)
.beside("`--intercept`, `--tunnel`");

pub(crate) static DEFAULT: Key<Shape> = Key::new(
    "default",
    Shape::Text,
    "`intercept`",
    "action for hosts without a rule",
)
.beside("`--default`");

pub(crate) static ALLOW: Key<Shape> = Key::new(
    "allow",
    Shape::List(&Shape::Text),
    "all",
    "the only allowed hosts",
)
.beside("`--allow`");

pub(crate) static DENY: Key<Shape> = Key::new(
    "deny",
    Shape::List(&Shape::Text),
    "none",
    "denied hosts, even if `allow` lists them",
)
.beside("`--deny`");

pub(crate) static PORTS: Key<Shape> = Key::new(
    "ports",
    Shape::List(&Shape::Text),
    "`80`, `443`, `1024-65535`",
    "allowed ports",
)
.beside("`--allow-port`");

pub(crate) static NETWORKS: Key<Shape> = Key::new(
    "networks",
    Shape::List(&Shape::Text),
    "none",
    "allowed internal addresses: `10.0.0.0/8`",
)
.beside("`--allow-network`");

pub(crate) static PRIVATE: Key<Boolean> = Key::new(
    "private",
    Boolean,
    "`false`",
    "allows all internal addresses",
)
.beside("`--allow-private`");

pub(crate) static RESOLVE: Key<Shape> = Key::new(
    "resolve",
    Shape::List(&Shape::Text),
    "name servers",
    "addresses of hosts, with precedence over name servers: `*.test=127.0.0.1`; the first that \
     matches",
)
.beside("`--resolve`");

pub(crate) static USERS: Key<Shape> = Key::new(
    "users",
    Shape::Text,
    "all clients",
    "file of users: lines `name:password`, `name:$2y$…` (`htpasswd -B`), `name:{SHA}…`; other \
     passwords that begin with `$…$` or `{…}`, or look like DES crypt, are refused",
)
.beside("`--users`");

pub(crate) static UPSTREAM: Key<Shape> = Key::new(
    "upstream",
    Shape::Map(&upstream::TABLE),
    "none",
    "connections to servers: a map, [see below](#keys-under-upstream)",
);

pub(crate) static OBSERVE: Key<Shape> = Key::new(
    "observe",
    Shape::Map(&observe::TABLE),
    "none",
    "observation of certificates: a map, [see below](#keys-under-observe)",
);

pub(crate) static LIMITS: Key<Shape> = Key::new(
    "limits",
    Shape::Map(&limits::TABLE),
    "below",
    "limits of the proxy: a map, [see below](#keys-under-limits)",
);
