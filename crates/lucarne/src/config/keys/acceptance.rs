//! Conditions for accepted certificates.

use lucarne_ct::Require;
use lucarne_settings::form::{Boolean, Count, Shape, Time, Words};
use lucarne_settings::{Key, Table};

use super::SUNLIGHT;

pub(crate) static TABLE: Table = Table::of(&[
    &NOTAFTERSTART,
    &NOTAFTERLIMIT,
    &REQUIRE,
    &ACCEPT_SHA1,
    &REJECT_EXPIRED,
    &REJECT_UNEXPIRED,
    &REJECT_EXTENSIONS,
    &MAXCHAIN,
]);

pub(crate) static NOTAFTERSTART: Key<Time> =
    Key::new("notafterstart", Time, "none", "Earliest accepted notAfter.").beside(SUNLIGHT);

pub(crate) static NOTAFTERLIMIT: Key<Time> = Key::new(
    "notafterlimit",
    Time,
    "none",
    "First notAfter that is no longer accepted. Seven days after this time, the log becomes \
     read-only (410 Gone). A log without a window is for tests and private use.",
)
.beside(SUNLIGHT);

pub(crate) static REQUIRE: Key<Words<Require>> = Key::new(
    "require",
    Words(&[("server_auth", Require::ServerAuth), ("any", Require::Any)]),
    "`server_auth`",
    "Required extended key usage of leaves. `server_auth` accepts leaves with serverAuth \
     (1.3.6.1.5.5.7.3.1) or anyExtendedKeyUsage (2.5.29.37.0), which includes serverAuth, and \
     refuses leaves without any usage. `any` accepts all leaves.",
);

pub(crate) static ACCEPT_SHA1: Key<Boolean> = Key::new(
    "accept_sha1",
    Boolean,
    "true",
    "Accept chains with SHA-1 signatures. The Merge Delay Monitor needs them.",
);

pub(crate) static REJECT_EXPIRED: Key<Boolean> =
    Key::new("reject_expired", Boolean, "false", "Refuse expired leaves.");

pub(crate) static REJECT_UNEXPIRED: Key<Boolean> = Key::new(
    "reject_unexpired",
    Boolean,
    "false",
    "Refuse leaves that have not expired.",
);

pub(crate) static REJECT_EXTENSIONS: Key<Shape> = Key::new(
    "reject_extensions",
    Shape::List(&Shape::Text),
    "none",
    "Refuse leaves with one of these extensions: a list of OIDs.",
);

pub(crate) static MAXCHAIN: Key<Count> = Key::new(
    "maxchain",
    Count::within(2, 100, "certificates"),
    "20",
    "Maximum number of certificates in a submitted chain.",
);
