//! Keys under `read_limits`.

use lucarne_settings::form::Count;
use lucarne_settings::{Key, Table};

pub(crate) static TABLE: Table = Table::of(&[
    &CLIENT_RATE,
    &CLIENT_BURST,
    &NO_CONTACT_RATE,
    &NO_CONTACT_BURST,
    &REMEMBERED,
]);

pub(crate) static CLIENT_RATE: Key<Count> = Key::new(
    "client_rate",
    Count::within(1, 1_000_000_000, "units a second"),
    "500",
    "Units per second for one client: an IPv4 address or an IPv6 /56. An IPv6 /48 has four times \
     as many.",
);

pub(crate) static CLIENT_BURST: Key<Count> = Key::new(
    "client_burst",
    Count::within(1, 1_000_000_000, "units"),
    "5000",
    "Units that one client can use at once.",
);

pub(crate) static NO_CONTACT_RATE: Key<Count> = Key::new(
    "no_contact_rate",
    Count::within(1, 1_000_000_000, "units a second"),
    "1000",
    "Units per second of tiles and issuers for all clients together whose `User-Agent` has neither \
     an e-mail address nor a URL. These units also count for each client.",
);

pub(crate) static NO_CONTACT_BURST: Key<Count> = Key::new(
    "no_contact_burst",
    Count::within(1, 1_000_000_000, "units"),
    "10000",
    "Units that these clients together can use at once.",
);

pub(crate) static REMEMBERED: Key<Count> = Key::new(
    "remembered",
    // A client takes 32 bytes, so the maximum takes 512 MiB.
    Count::within(16, 16 << 20, "clients"),
    "65536",
    "Maximum number of clients in memory, and of partial tiles that they requested; 32 bytes for \
     both.",
);
