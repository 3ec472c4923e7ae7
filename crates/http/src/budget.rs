//! The memory budget of bodies in flight, for each client and in total.
//!
//! A complete body is read and released at once. An incomplete body, whose client sends slowly or
//! never finishes, takes memory for as long as the timeouts allow. An HTTP/2 connection can have an
//! incomplete body in each stream. Waiting requests therefore reserve bytes of the budget,
//! regardless of the protocol. When the budget is exhausted, the server refuses a request instead
//! of reading its body further.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use crate::activity::Activity;
use crate::connection_table::ConnectionTable;
use crate::limits::Limits;

/// Bytes that every client may use, regardless of other clients: enough for an ordinary submission.
/// The limit on connections bounds the sum of these bytes.
const FREE: usize = 16 << 10;

/// The budget of all listeners.
pub(crate) struct Budget {
    max: usize,
    max_each: usize,
    /// Bytes in use beyond the free bytes of each client.
    held: AtomicUsize,
    /// Number of requests of all clients that wait for a log to grow.
    waiting: AtomicUsize,
    clients: Mutex<ConnectionTable>,
    metrics: BudgetMetrics,
}

lucarne_metrics::metrics! {
    /// Metrics of the budget.
    #[derive(Clone)]
    pub(crate) struct BudgetMetrics, prefix "lucarne_http" {
        held: Gauge = (
            "inflight",
            "Incomplete bodies of submissions, and responses for single clients",
            Unit::Bytes
        );
        client: Counter = (
            "inflight_refused_client",
            "Requests refused because their client had too many bytes in flight"
        );
        all: Counter = (
            "inflight_refused_all",
            "Requests refused because all clients had too many bytes in flight"
        );
    }
}

/// The network of a client: an IPv4 address, or the /56 of an IPv6 address that a provider assigns
/// to one customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network(IpAddr);

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        Network(match address.to_canonical() {
            IpAddr::V6(address) => {
                let customer = address.to_bits() >> (128 - 56) << (128 - 56);
                IpAddr::V6(Ipv6Addr::from_bits(customer))
            }
            address => address,
        })
    }
}

/// The limit that was reached: of bytes, of waiting requests, or of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    /// The limit of this client.
    Client,
    /// The limit of all clients.
    All,
}

impl Budget {
    pub(crate) fn new(limits: &Limits, metrics: BudgetMetrics) -> Arc<Self> {
        Arc::new(Budget {
            max: limits.inflight_bytes,
            max_each: limits.client_inflight_bytes,
            held: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            clients: Mutex::new(ConnectionTable::new(limits)),
            metrics,
        })
    }

    /// Returns the access of a new connection to the account of the client with this address.
    ///
    /// # Errors
    /// If the client, or all clients together, have too many connections.
    pub(crate) fn client(self: &Arc<Self>, address: IpAddr) -> Result<Arc<Client>, Exhausted> {
        let activity = Arc::new(Activity::new());
        Ok(Arc::new(Client {
            budget: self.clone(),
            address,
            account: self.clients.lock().enter(address, &activity)?,
            activity,
        }))
    }
}

/// The access of one connection to the account of its client. All connections of a client share the
/// account.
pub(crate) struct Client {
    budget: Arc<Budget>,
    address: IpAddr,
    account: Arc<Account>,
    /// The activity of the connection.
    pub(crate) activity: Arc<Activity>,
}

/// The resources in use by a client.
#[derive(Default)]
pub(crate) struct Account {
    bytes: AtomicUsize,
    /// Number of requests that wait for the log to grow.
    waiting: AtomicUsize,
    /// Number of requests that read entries or search a leaf.
    looking: AtomicUsize,
}

impl Client {
    /// Returns the remote address of the connection.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        let budget = &*self.budget;
        let Some(before) = add(&self.account.bytes, bytes, budget.max_each) else {
            budget.metrics.client.inc();
            return Err(Exhausted::Client);
        };
        let shared = beyond_free(before + bytes) - beyond_free(before);
        if add(&budget.held, shared, budget.max).is_none() {
            self.account.bytes.fetch_sub(bytes, Relaxed);
            budget.metrics.all.inc();
            return Err(Exhausted::All);
        }
        budget.metrics.held.inc_by(bytes as i64);
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        let before = self.account.bytes.fetch_sub(bytes, Relaxed);
        let shared = beyond_free(before) - beyond_free(before - bytes);
        self.budget.held.fetch_sub(shared, Relaxed);
        self.budget.metrics.held.dec_by(bytes as i64);
    }
}

/// Adds `bytes` and returns the previous value; `None` if the sum would exceed `max`.
fn add(held: &AtomicUsize, bytes: usize, max: usize) -> Option<usize> {
    let added = held.fetch_update(Relaxed, Relaxed, |held| {
        held.checked_add(bytes).filter(|total| *total <= max)
    });
    added.ok()
}

fn beyond_free(held: usize) -> usize {
    held.saturating_sub(FREE)
}

impl Drop for Client {
    /// The last connection of a client removes the account.
    fn drop(&mut self) {
        let network = Network::of(self.address);
        self.budget.clients.lock().remove(network, &self.activity);
    }
}

/// Maximum number of requests of one client that wait for a log to grow: long polls and feeds.
pub(crate) const MAX_WAITING_EACH: usize = 64;
/// Maximum number of waiting requests of all clients.
const MAX_WAITING: usize = 16_384;

/// A request that waits for a log to grow, counted until the value is dropped.
pub(crate) struct Waiting(Arc<Client>);

impl Waiting {
    /// Counts one more request of this client.
    ///
    /// # Errors
    /// If the client or all clients together have reached the limit.
    pub(crate) fn enter(client: &Arc<Client>) -> Result<Self, Exhausted> {
        let (each, all) = (&client.account.waiting, &client.budget.waiting);
        add(each, 1, MAX_WAITING_EACH).ok_or(Exhausted::Client)?;
        if add(all, 1, MAX_WAITING).is_none() {
            each.fetch_sub(1, Relaxed);
            return Err(Exhausted::All);
        }
        client.activity.waiting.fetch_add(1, Relaxed);
        Ok(Waiting(client.clone()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.account.waiting.fetch_sub(1, Relaxed);
        self.0.budget.waiting.fetch_sub(1, Relaxed);
        self.0.activity.waiting.fetch_sub(1, Relaxed);
    }
}

/// Maximum number of requests of one client that read entries or search a leaf (RFC 6962). A log
/// processes a few of these requests at a time, in the order of arrival.
pub(crate) const MAX_LOOKING_EACH: usize = 16;

/// A request that reads entries or searches a leaf, counted until the value is dropped.
pub(crate) struct Looking(Arc<Client>);

impl Looking {
    /// Counts one more request of this client; `None` if the client has reached the limit.
    pub(crate) fn enter(client: &Arc<Client>) -> Option<Self> {
        add(&client.account.looking, 1, MAX_LOOKING_EACH)?;
        Some(Looking(client.clone()))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.account.looking.fetch_sub(1, Relaxed);
    }
}

/// Reserved bytes, released when the value is dropped.
pub(crate) struct Reservation {
    client: Arc<Client>,
    bytes: usize,
}

impl Reservation {
    /// Creates an empty reservation.
    pub(crate) fn nothing(client: &Arc<Client>) -> Self {
        Reservation {
            client: client.clone(),
            bytes: 0,
        }
    }

    /// Reserves at least this number of bytes in total.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.client.take(more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Releases all reserved bytes beyond this number.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.client.give_back(less);
        self.bytes -= less;
    }

    /// Reserves the bytes of a response until the client has received them.
    pub(crate) fn of_response(client: &Arc<Client>, bytes: Bytes) -> Result<Bytes, Exhausted> {
        let mut held = Reservation::nothing(client);
        held.grow(bytes.len())?;
        Ok(Bytes::from_owner(ReservedBytes { bytes, _held: held }))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.client.give_back(self.bytes);
    }
}

struct ReservedBytes {
    bytes: Bytes,
    _held: Reservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 10 * FREE;
    const EACH: usize = 4 * FREE;

    fn budget() -> Arc<Budget> {
        let limits = Limits {
            inflight_bytes: MAX,
            client_inflight_bytes: EACH,
            ..Limits::default()
        };
        Budget::new(&limits, BudgetMetrics::default())
    }

    fn client(budget: &Arc<Budget>, address: &str) -> Arc<Client> {
        budget.client(address.parse().unwrap()).unwrap()
    }

    fn held(client: &Arc<Client>, bytes: usize) -> Result<Reservation, Exhausted> {
        let mut held = Reservation::nothing(client);
        held.grow(bytes).map(|()| held)
    }

    #[test]
    fn a_client_is_an_address_or_what_a_customer_gets() {
        let of = |address: &str| Network::of(address.parse().unwrap());
        assert_eq!(of("2001:db8:1:2ff::1"), of("2001:db8:1:200:1:2:3:4"));
        assert_ne!(of("2001:db8:1:2ff::1"), of("2001:db8:1:300::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    }

    #[test]
    fn what_is_held_is_bounded_for_each_and_for_all() {
        let budget = budget();
        let one = client(&budget, "192.0.2.1");
        let again = client(&budget, "192.0.2.1");
        let first = held(&one, EACH - 1).unwrap();
        assert_eq!(held(&again, 2).err(), Some(Exhausted::Client));
        let mut rest = held(&again, 1).unwrap();
        assert_eq!(rest.grow(2), Err(Exhausted::Client));
        assert_eq!(rest.grow(1), Ok(()));
        // Three clients use nine tenths of the shared bytes; the fourth client uses the rest.
        let others = ["192.0.2.2", "192.0.2.3"].map(|address| client(&budget, address));
        let theirs = others.each_ref().map(|client| held(client, EACH).unwrap());
        let last = client(&budget, "192.0.2.4");
        let mut lasts = held(&last, 2 * FREE).unwrap();
        assert_eq!(lasts.grow(2 * FREE + 1), Err(Exhausted::All));
        // Another client can still make an ordinary submission.
        let honest = client(&budget, "2001:db8::1");
        assert!(held(&honest, FREE).is_ok());
        assert_eq!(held(&honest, FREE + 1).err(), Some(Exhausted::All));
        let all = budget.metrics.held.get() as usize;
        assert_eq!(all, 3 * EACH + 2 * FREE);
        drop(theirs);
        assert_eq!(lasts.grow(EACH), Ok(()));
        drop((first, rest, lasts));
        assert_eq!(
            (budget.metrics.held.get(), budget.held.load(Relaxed)),
            (0, 0)
        );
    }

    #[test]
    fn those_who_wait_are_counted_for_each_client() {
        let budget = budget();
        let (one, other) = (client(&budget, "192.0.2.1"), client(&budget, "192.0.2.2"));
        let enter = |_| Waiting::enter(&one).unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING_EACH).map(enter).collect();
        assert_eq!(Waiting::enter(&one).err(), Some(Exhausted::Client));
        assert!(Waiting::enter(&other).is_ok());
        waiting.pop();
        assert!(Waiting::enter(&one).is_ok());
        drop(waiting);
        assert_eq!(budget.waiting.load(Relaxed), 0);
    }

    #[test]
    fn no_client_looks_for_all() {
        let budget = budget();
        let (one, other) = (client(&budget, "192.0.2.1"), client(&budget, "192.0.2.2"));
        let looking: Vec<_> = (0..MAX_LOOKING_EACH)
            .map(|_| Looking::enter(&one).unwrap())
            .collect();
        assert!(Looking::enter(&one).is_none());
        assert!(Looking::enter(&other).is_some());
        drop(looking);
        assert!(Looking::enter(&one).is_some());
    }

    #[test]
    fn accounts_are_closed_with_the_last_connection() {
        let budget = budget();
        let (one, two) = (client(&budget, "::1"), client(&budget, "::1"));
        let held = held(&one, 7).unwrap();
        drop(one);
        assert_eq!(two.account.bytes.load(Relaxed), 7);
        drop((two, held));
        assert!(budget.clients.lock().is_empty());
    }

    #[test]
    fn a_response_is_held_until_it_is_taken() {
        let budget = budget();
        let client = client(&budget, "::1");
        let response = Reservation::of_response(&client, Bytes::from_static(b"unpacked")).unwrap();
        let part = response.slice(2..);
        drop(response);
        assert_eq!(budget.metrics.held.get(), 8);
        drop(part);
        assert_eq!(budget.metrics.held.get(), 0);
    }
}
