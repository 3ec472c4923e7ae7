//! Keys under `upstream`.

use lucarne_settings::form::{Boolean, Shape};
use lucarne_settings::{Key, Table};

use super::entries;

pub(crate) static TABLE: Table = Table::of(&[
    &CA,
    &SYSTEMROOTS,
    &INSECURE,
    &INSECUREHOSTS,
    &FINGERPRINTS,
    &PROXY,
    &CERTIFICATES,
]);

pub(crate) static CA: Key<Shape> = Key::new(
    "ca",
    Shape::List(&Shape::Text),
    "none",
    "PEM files of CAs for servers, in addition to the CAs of the system; or of the servers' own \
     certificates, self-signed or not",
)
.beside("`--upstream-ca`");

pub(crate) static SYSTEMROOTS: Key<Boolean> = Key::new(
    "systemroots",
    Boolean,
    "`true`",
    "trusts the CAs of the system",
);

pub(crate) static INSECURE: Key<Boolean> = Key::new(
    "insecure",
    Boolean,
    "`false`",
    "accepts any certificate of any server, like `curl -k`",
)
.beside("`--insecure`");

pub(crate) static INSECUREHOSTS: Key<Shape> = Key::new(
    "insecurehosts",
    Shape::List(&Shape::Text),
    "none",
    "accepts any certificate of these hosts (patterns without a port)",
)
.beside("`--insecure-host`");

pub(crate) static FINGERPRINTS: Key<Shape> = Key::new(
    "fingerprints",
    Shape::List(&Shape::Text),
    "none",
    "accepts only the certificate with this SHA-256 for a host, and checks nothing else in it: \
     `bmc.example=AB:CD:…`; use one entry for each certificate of a host",
)
.beside("`--upstream-fingerprint`");

pub(crate) static PROXY: Key<Shape> = Key::new(
    "proxy",
    Shape::Either(&[Shape::Secret, Shape::List(&Shape::Map(&entries::THROUGH))]),
    "none",
    "a proxy for connections to servers: `http://` or `https://`, `[user:password@]host:port`; or \
     a list of `url` (or `direct`), `host` (a pattern; default: all), `password` (source of the \
     password of the user in the URL). As a flag: `[HOST=]URL`",
)
.beside("`--upstream-proxy`");

pub(crate) static CERTIFICATES: Key<Shape> = Key::new(
    "certificates",
    Shape::List(&Shape::Map(&entries::PAIR)),
    "none",
    "list of client certificates for servers that request one: `certificate`, `key`, `host` as \
     above. As a flag: `[HOST=]CERTIFICATE[,KEY]`",
)
.beside("`--upstream-certificate`");
