//! Keys under `read_limits`.

use lucarne_http::{Rate, ReadLimits};
use lucarne_settings::form::Count;
use lucarne_settings::section;

/// The limits, with the refill rates in units per second.
pub(crate) struct Rates {
    client_rate: u64,
    client_burst: u64,
    no_contact_rate: u64,
    no_contact_burst: u64,
    clients: usize,
}

impl Default for Rates {
    fn default() -> Self {
        let limits = ReadLimits::default();
        Rates {
            client_rate: limits.client.units_per_second(),
            client_burst: limits.client.burst(),
            no_contact_rate: limits.no_contact.units_per_second(),
            no_contact_burst: limits.no_contact.burst(),
            clients: limits.clients,
        }
    }
}

impl From<Rates> for ReadLimits {
    fn from(rates: Rates) -> Self {
        ReadLimits {
            client: Rate::per_second(rates.client_burst, rates.client_rate),
            no_contact: Rate::per_second(rates.no_contact_burst, rates.no_contact_rate),
            clients: rates.clients,
            ..ReadLimits::default()
        }
    }
}

section! {
    for Rates = [Rates::default()];

    /// Units per second for one client: an IPv4 address or an IPv6 /56. An IPv6 /48 has four times
    /// as many.
    client_rate: Count = Count::within(1, 1_000_000_000, "units a second") => client_rate;

    /// Units that one client can use at once.
    client_burst: Count = Count::within(1, 1_000_000_000, "units") => client_burst;

    /// Units per second of tiles and issuers for all clients together whose `User-Agent` has
    /// neither an e-mail address nor a URL. These units also count for each client.
    no_contact_rate: Count = Count::within(1, 1_000_000_000, "units a second") => no_contact_rate;

    /// Units that these clients together can use at once.
    no_contact_burst: Count = Count::within(1, 1_000_000_000, "units") => no_contact_burst;

    /// Maximum number of clients in memory, and of partial tiles that they requested; 32 bytes for
    /// both.
    // A client takes 32 bytes, so the maximum takes 512 MiB.
    remembered: Count = Count::within(16, 16 << 20, "clients") => clients;
}
