//! Password checks. Each check is slow on purpose. Few checks run at the same time, and clients
//! share them fairly.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// Limit of concurrent checks: each check costs milliseconds to a second of CPU time, and any
/// client can send a password.
const AT_A_TIME: usize = 2;
/// Limits of the running and waiting checks: for one client, and for all clients.
const MAX_PER_CLIENT: usize = 16;
const MAX_PENDING: usize = 512;
/// Longest wait for a check to start.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

/// Keyed hash of user and password. Concurrent requests with the same key share one check.
pub(crate) type Key = [u8; 32];

/// Reasons why a password was not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksFull {
    /// The client's queue was full, or its earlier checks did not end in time.
    OfClient,
    /// The queues of all clients were full, no slot for a check became free in time, or the check
    /// panicked.
    OfAll,
}

/// Whether the password is correct, or why it was not checked; `None` while the check waits or
/// runs.
type Verdict = Option<Result<bool, ChecksFull>>;

/// Password checks in a fair order.
///
/// Every client has a queue whose checks run one after the other, and the queues take turns. A
/// client waits for at most one check of each other client, however many passwords the others send.
#[derive(Debug)]
pub(crate) struct Checks {
    slots: Arc<Semaphore>,
    queues: Mutex<ClientQueues>,
    patience: Duration,
}

#[derive(Debug, Default)]
struct ClientQueues {
    of: HashMap<IpAddr, ClientQueue>,
    /// Number of checks in all queues.
    total: usize,
}

#[derive(Debug)]
struct ClientQueue {
    turn: Arc<Semaphore>,
    /// The waiting checks and the running one, each with the sender of its verdict.
    under_way: HashMap<Key, Arc<watch::Sender<Verdict>>>,
}

impl Default for ClientQueue {
    fn default() -> Self {
        ClientQueue {
            turn: Arc::new(Semaphore::new(1)),
            under_way: HashMap::new(),
        }
    }
}

impl Default for Checks {
    fn default() -> Self {
        Checks::new(QUEUE_TIMEOUT)
    }
}

impl Checks {
    pub(crate) fn new(patience: Duration) -> Self {
        Checks {
            slots: Arc::new(Semaphore::new(AT_A_TIME)),
            queues: Mutex::default(),
            patience,
        }
    }

    /// Waits for the client's turn, runs `check` and returns its result. Concurrent calls with the
    /// same `key` from the same address share one result.
    ///
    /// # Errors
    /// If the queue is full, or the turn does not come in time.
    pub(crate) async fn run(
        self: &Arc<Self>,
        client: IpAddr,
        key: Key,
        check: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<bool, ChecksFull> {
        let mut verdict = self.join(network(client), key, check)?;
        let result = verdict.wait_for(Option::is_some).await;
        // The sender is dropped without a verdict if the check panics.
        result
            .ok()
            .and_then(|result| *result)
            .unwrap_or(Err(ChecksFull::OfAll))
    }

    fn join(
        self: &Arc<Self>,
        client: IpAddr,
        key: Key,
        check: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<watch::Receiver<Verdict>, ChecksFull> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.of.get(&client) {
            if let Some(same) = queue.under_way.get(&key) {
                return Ok(same.subscribe());
            }
            if queue.under_way.len() >= MAX_PER_CLIENT {
                return Err(ChecksFull::OfClient);
            }
        }
        if queues.total >= MAX_PENDING {
            return Err(ChecksFull::OfAll);
        }
        queues.total += 1;
        let (sender, verdict) = watch::channel(None);
        let sender = Arc::new(sender);
        let queue = queues.of.entry(client).or_default();
        queue.under_way.insert(key, sender.clone());
        let turn = queue.turn.clone();
        let place = Place {
            checks: self.clone(),
            client,
            key,
        };
        tokio::spawn(place.take_turn(turn, sender, check));
        Ok(verdict)
    }

    /// Waits for the client's turn, then for a slot. Each client waits for one slot at most, and
    /// slots go to the longest waiter, so clients take turns.
    async fn admit(&self, turn: Arc<Semaphore>) -> Result<[OwnedSemaphorePermit; 2], ChecksFull> {
        let latest = Instant::now() + self.patience;
        let wait = async |semaphore: Arc<Semaphore>, full| {
            let waited = timeout_at(latest, semaphore.acquire_owned()).await;
            waited.ok().and_then(Result::ok).ok_or(full)
        };
        let own = wait(turn, ChecksFull::OfClient).await?;
        let slot = wait(self.slots.clone(), ChecksFull::OfAll).await?;
        Ok([own, slot])
    }
}

/// Place of a check in its client's queue, until it is dropped.
struct Place {
    checks: Arc<Checks>,
    client: IpAddr,
    key: Key,
}

impl Place {
    async fn take_turn(
        self,
        turn: Arc<Semaphore>,
        sender: Arc<watch::Sender<Verdict>>,
        check: impl FnOnce() -> bool + Send + 'static,
    ) {
        let permits = match self.checks.admit(turn).await {
            Ok(permits) => permits,
            Err(full) => {
                sender.send_replace(Some(Err(full)));
                return;
            }
        };
        if sender.receiver_count() == 0 {
            return; // no caller waits any more
        }
        // A running check cannot be stopped: it holds its permits until it ends, even if no caller
        // waits.
        let run = move || {
            let right = check();
            drop(permits);
            right
        };
        if let Ok(right) = tokio::task::spawn_blocking(run).await {
            sender.send_replace(Some(Ok(right)));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.checks.queues.lock();
        queues.total -= 1;
        if let Some(queue) = queues.of.get_mut(&self.client) {
            queue.under_way.remove(&self.key);
            if queue.under_way.is_empty() {
                queues.of.remove(&self.client);
            }
        }
    }
}

/// Returns the address that identifies a client: an IPv4 address, or the /64 network of an IPv6
/// address, which one subscriber usually has.
pub(crate) fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A duration that no test reaches.
    const LONG: Duration = Duration::from_secs(3600);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn key(n: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&n.to_be_bytes());
        key
    }

    /// Gate that counts checks and holds each check until the gate is open.
    #[derive(Clone, Default)]
    struct Gate {
        open: Arc<(Mutex<bool>, parking_lot::Condvar)>,
        begun: Arc<AtomicUsize>,
    }

    impl Gate {
        fn check(&self) -> impl FnOnce() -> bool + Send + 'static {
            let gate = self.clone();
            move || {
                gate.begun.fetch_add(1, Ordering::SeqCst);
                let (open, opened) = &*gate.open;
                opened.wait_while(&mut open.lock(), |open| !*open);
                true
            }
        }

        fn open(&self) {
            *self.open.0.lock() = true;
            self.open.1.notify_all();
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::SeqCst)
        }
    }

    /// Opens the gate even if a test fails, because the runtime waits for its blocking tasks.
    impl Drop for Gate {
        fn drop(&mut self) {
            self.open();
        }
    }

    #[tokio::test]
    async fn one_client_takes_no_more_than_its_share() {
        let (checks, gate) = (Arc::new(Checks::new(LONG)), Gate::default());
        let (greedy, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        let mut waiting = Vec::new();
        for n in 0..MAX_PER_CLIENT {
            let mut one = Box::pin(checks.run(greedy, key(n), gate.check()));
            assert!(poll!(&mut one).is_pending());
            waiting.push(one);
        }
        let more = checks.run(greedy, key(99), || true).await;
        assert_eq!(more, Err(ChecksFull::OfClient));
        // A check with the same key shares the place in the queue.
        let mut again = Box::pin(checks.run(greedy, key(3), || false));
        assert!(poll!(&mut again).is_pending());
        assert_eq!(checks.run(other, key(0), || true).await, Ok(true));
        assert_eq!(checks.run(other, key(1), || false).await, Ok(false));
        assert!(gate.begun() <= 1, "one at a time of each client");
        gate.open();
        for one in waiting {
            assert_eq!(one.await, Ok(true));
        }
        assert_eq!(again.await, Ok(true));
        assert_eq!(gate.begun(), MAX_PER_CLIENT, "each once");
        assert_eq!(checks.run(greedy, key(99), || true).await, Ok(true));
    }

    #[tokio::test]
    async fn all_clients_together_find_a_bound() {
        let (checks, gate) = (Arc::new(Checks::new(LONG)), Gate::default());
        let mut waiting = Vec::new();
        for n in 0..MAX_PENDING {
            let client = IpAddr::from([10, 0, 0, u8::try_from(n / MAX_PER_CLIENT).unwrap()]);
            let mut one = Box::pin(checks.run(client, key(n), gate.check()));
            assert!(poll!(&mut one).is_pending());
            waiting.push(one);
        }
        let late = checks.run(ip("192.0.2.1"), key(0), || true).await;
        assert_eq!(late, Err(ChecksFull::OfAll));
        drop(waiting);
        gate.open();
        // Checks of cancelled callers do not run, except the two that already had a slot.
        while !checks.queues.lock().of.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(checks.queues.lock().total, 0);
        assert!(gate.begun() <= AT_A_TIME, "{}", gate.begun());
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let (checks, gate) = (Arc::new(Checks::new(Duration::ZERO)), Gate::default());
        let mut running = Vec::new();
        for n in 0..AT_A_TIME {
            let client = IpAddr::from([10, 0, 0, u8::try_from(n).unwrap()]);
            let mut one = Box::pin(checks.run(client, key(n), gate.check()));
            assert!(poll!(&mut one).is_pending());
            running.push(one);
        }
        while gate.begun() < AT_A_TIME {
            tokio::task::yield_now().await;
        }
        let late = checks.run(ip("192.0.2.1"), key(0), || true).await;
        assert_eq!(late, Err(ChecksFull::OfAll));
        // A check that waits for another check of the same client reports `OfClient`.
        let own = IpAddr::from([10, 0, 0, 0]);
        let late = checks.run(own, key(9), || true).await;
        assert_eq!(late, Err(ChecksFull::OfClient));
        // The slot of a cancelled caller stays taken until its check ends.
        drop(running);
        let late = checks.run(ip("192.0.2.1"), key(0), || true).await;
        assert_eq!(late, Err(ChecksFull::OfAll));
    }

    #[test]
    fn the_addresses_of_one_client_are_one() {
        let one = network(ip("2001:db8:1:2::1"));
        assert_eq!(network(ip("2001:db8:1:2:ffff::7")), one);
        assert_ne!(network(ip("2001:db8:1:3::1")), one);
        assert_eq!(network(ip("::ffff:192.0.2.1")), network(ip("192.0.2.1")));
        assert_ne!(network(ip("192.0.2.2")), network(ip("192.0.2.1")));
    }

    /// A check that panics admits no client.
    #[tokio::test]
    async fn a_check_that_fails_admits_nobody() {
        let checks = Arc::new(Checks::new(LONG));
        let one = checks.run(ip("192.0.2.1"), key(0), || panic!("as a test has it"));
        assert_eq!(one.await, Err(ChecksFull::OfAll));
        let next = checks.run(ip("192.0.2.1"), key(0), || true).await;
        assert_eq!(next, Ok(true));
    }
}
