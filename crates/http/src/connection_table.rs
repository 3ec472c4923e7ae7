//! The open connections of each client, and the choice of the connection that gives way.
//!
//! One client may have an eighth of all connections. If all clients together have the maximum, the
//! server closes an idle connection for a new one: of the client with the most connections, the
//! connection that has been idle for the longest time. A connection with a request in flight is
//! never closed for another one.

use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::activity::Activity;
use crate::budget::{Account, Exhausted, Network};
use crate::forwarded::Proxies;
use crate::limits::Limits;

/// The connections of all listeners.
pub(crate) struct ConnectionTable {
    max: usize,
    proxies: Proxies,
    count: usize,
    clients: HashMap<Network, Connections>,
}

/// The connections of one client.
#[derive(Default)]
struct Connections {
    account: Arc<Account>,
    /// The activity of each connection, by its address in memory.
    open: HashMap<usize, Arc<Activity>>,
}

/// The part of all connections that one client may have, as a divisor.
const PART: usize = 8;

impl ConnectionTable {
    pub(crate) fn new(limits: &Limits) -> Self {
        ConnectionTable {
            max: limits.connections,
            proxies: Proxies::new(limits.trusted_proxies.clone()),
            count: 0,
            clients: HashMap::new(),
        }
    }

    /// Adds a connection of the client at this address, and returns the account of the client. A
    /// proxy has no limit of its own, because it has the connections of many clients.
    ///
    /// # Errors
    /// If the client has reached its limit, or if all clients have and no client with more
    /// connections has an idle one.
    pub(crate) fn enter(
        &mut self,
        address: IpAddr,
        activity: &Arc<Activity>,
    ) -> Result<Arc<Account>, Exhausted> {
        let network = Network::of(address);
        let own = self.clients.get(&network).map_or(0, |it| it.open.len());
        if own >= self.max.div_ceil(PART) && !self.proxies.may_be(address) {
            return Err(Exhausted::Client);
        }
        if self.count >= self.max && !self.displace(own) {
            return Err(Exhausted::All);
        }
        self.count += 1;
        let client = self.clients.entry(network).or_default();
        client.open.insert(key(activity), activity.clone());
        Ok(client.account.clone())
    }

    /// Closes an idle connection of a client that has more than `own` connections. Returns `false`
    /// if there is none. Only a full table pays for this search.
    fn displace(&mut self, own: usize) -> bool {
        let counts = self.clients.iter().map(|(it, of)| (of.open.len(), *it));
        let mut greedy: BinaryHeap<_> = counts.filter(|(count, _)| *count > own).collect();
        while let Some((_, network)) = greedy.pop() {
            let open = self.clients.get(&network).map(|it| it.open.values());
            let idle = open.into_iter().flatten();
            let idle = idle.filter_map(|it| Some((it.idle_since()?, it)));
            if let Some((_, activity)) = idle.min_by_key(|(since, _)| *since) {
                let activity = activity.clone();
                activity.displaced.raise();
                self.remove(network, &activity);
                return true;
            }
        }
        false
    }

    /// Removes a connection, unless it was displaced. The last connection of a client removes the
    /// account.
    pub(crate) fn remove(&mut self, network: Network, activity: &Arc<Activity>) {
        let Some(client) = self.clients.get_mut(&network) else {
            return;
        };
        if client.open.remove(&key(activity)).is_some() {
            self.count -= 1;
        }
        if client.open.is_empty() {
            self.clients.remove(&network);
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.clients.is_empty()
    }
}

fn key(activity: &Arc<Activity>) -> usize {
    Arc::as_ptr(activity).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREEDY: &str = "192.0.2.1";

    fn table(max: usize) -> ConnectionTable {
        ConnectionTable::new(&Limits {
            connections: max,
            trusted_proxies: Some(vec!["10.0.0.0/8".parse().unwrap()]),
            ..Limits::default()
        })
    }

    fn enter(table: &mut ConnectionTable, address: &str) -> Result<Arc<Activity>, Exhausted> {
        let activity = Arc::new(Activity::new());
        table.enter(address.parse().unwrap(), &activity)?;
        Ok(activity)
    }

    fn leave(table: &mut ConnectionTable, address: &str, activity: &Arc<Activity>) {
        table.remove(Network::of(address.parse().unwrap()), activity);
    }

    #[test]
    fn one_client_has_a_part_and_a_proxy_has_no_limit() {
        let mut table = table(16);
        let first = enter(&mut table, "2001:db8::1").unwrap();
        let second = enter(&mut table, "2001:db8:0:1::1").unwrap();
        let refused = enter(&mut table, "2001:db8::2");
        assert_eq!(refused.err(), Some(Exhausted::Client));
        let other = enter(&mut table, "2001:db8:0:100::1").unwrap();
        leave(&mut table, "2001:db8::1", &first);
        let again = enter(&mut table, "2001:db8::2").unwrap();
        let mut proxied = (0..9).map(|_| enter(&mut table, "10.1.2.3").unwrap());
        assert!(proxied.all(|activity| !activity.displaced.is_raised()));
        for (address, activity) in [("2001:db8::", second), ("2001:db8:0:100::", other)] {
            leave(&mut table, address, &activity);
        }
        leave(&mut table, "2001:db8::", &again);
        assert_eq!((table.count, table.clients.len()), (9, 1));
    }

    #[test]
    fn the_idlest_connection_of_the_greediest_client_makes_room() {
        let mut table = table(24);
        let mut proxied: Vec<_> = (0..20).map(|_| enter(&mut table, "10.0.0.1")).collect();
        let proxied: Vec<_> = proxied.drain(..).map(Result::unwrap).collect();
        // The greedier client has nothing but requests in flight.
        proxied.iter().for_each(|activity| activity.begin());
        let modest = enter(&mut table, "192.0.2.2").unwrap();
        let [busy, idle, newest] = [(); 3].map(|()| enter(&mut table, GREEDY).unwrap());
        busy.begin();
        let newcomer = enter(&mut table, "192.0.2.3").unwrap();
        assert!(idle.displaced.is_raised());
        // The end of a displaced connection gives its place back only once.
        leave(&mut table, GREEDY, &idle);
        assert_eq!(table.count, 24);
        let next = enter(&mut table, "192.0.2.4").unwrap();
        assert!(newest.displaced.is_raised());
        // The idle connections belong to clients with no more connections than this one.
        let second = enter(&mut table, "192.0.2.4");
        assert_eq!(second.err(), Some(Exhausted::All));
        for stays in [&busy, &modest, &newcomer, &next]
            .into_iter()
            .chain(&proxied)
        {
            assert!(!stays.displaced.is_raised());
        }
    }
}
