//! The instances of a log under test, on loopback or on their own machines.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use lucarne_testkit::{
    Audit, BadDisk, Client, Launch, Machine, Network, Place, Server, free_port, temp_dir,
};
use serde_json::Value;

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, LUCARNE, eventually, load_test, pki};

pub(super) const LOG: &str = "log";
/// The key that all instances share.
pub(super) const KEY: &str = "0123456789abcdef0123456789abcdef";
const COUNT: usize = 3;

/// The networks between the machines, by purpose. If the lock is in the bucket, `database` is
/// unused.
pub(super) const BRIDGES: [&str; 4] = [STORE, DATABASE, INSTANCES, CLIENTS];
pub(super) const STORE: &str = "store";
pub(super) const DATABASE: &str = "database";
pub(super) const INSTANCES: &str = "instances";
pub(super) const CLIENTS: &str = "clients";

/// An instance of the log.
pub(super) struct Instance {
    /// The name of its configuration.
    pub(super) file: String,
    /// The address for clients.
    pub(super) address: SocketAddr,
    /// The address for other instances.
    pub(super) others: SocketAddr,
    server: Option<Server>,
    /// The machine, with a clock that can be set; `None` on loopback.
    pub(super) machine: Option<(Machine, BadDisk)>,
}

impl Instance {
    fn client(&self, path: &str) -> Client {
        Client::new(format!("http://{}{path}", self.address))
    }

    /// Returns a client of the log.
    pub(super) fn log(&self) -> Client {
        self.client(&format!("/{LOG}"))
    }

    /// Returns the part of `/health` about the log; `None` without a response.
    pub(super) async fn health(&self) -> Option<Value> {
        let client = self.client("");
        let asked = tokio::time::timeout(Duration::from_secs(2), client.get("health")).await;
        Some(asked.ok()?.ok()?.json().ok()?["logs"][0].take())
    }

    pub(super) fn server(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }
}

/// All instances of a log.
pub(super) struct Instances {
    pub(super) site: Site,
    place: Place,
    pub(super) all: Vec<Instance>,
}

impl Instances {
    /// Configures and creates the log on loopback, without starting the instances.
    pub(super) fn create(place: Place) -> Self {
        let addresses = (0..COUNT).map(|_| loopback()).collect();
        Self::create_on(place, addresses, Vec::new())
    }

    /// Configures and creates the log with each instance on its own machine.
    pub(super) fn on(network: &Network, machines: Vec<Machine>, place: Place) -> Self {
        // The test process, which is on none of the machines, creates the log.
        assert!(network.address(CLIENTS).is_private());
        let addresses = machines.iter().map(|machine| {
            let at = |bridge| SocketAddr::from((machine.address(bridge), free_port()));
            (at(CLIENTS), at(INSTANCES))
        });
        Self::create_on(place, addresses.collect(), machines)
    }

    /// Creates instances with `addresses` for clients and for other instances.
    fn create_on(
        place: Place,
        addresses: Vec<(SocketAddr, SocketAddr)>,
        machines: Vec<Machine>,
    ) -> Self {
        let directory = temp_dir();
        let key = directory.path().join("instances.key");
        fs::write(&key, KEY).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let settings = "period: 100\ninstances: {address: \"HERE\", key: instances.key}";
        let log = [(LOG, settings.replace("HERE", &addresses[0].1.to_string()))];
        let site = Site::prepare_at(place.clone(), directory, log);
        fs::write(site.path().join("roots.pem"), roots()).unwrap();
        let site = site.init();
        let text = fs::read_to_string(site.configuration()).unwrap();
        let mut machines = machines.into_iter();
        let mut all = Vec::new();
        for (n, (clients, instances)) in addresses.iter().enumerate() {
            let file = format!("lucarne{}.yaml", n + 1);
            let listen = |address: &dyn std::fmt::Display| format!("listen: {address}\n");
            let text = text
                .replace(&listen(&site.address()), &listen(clients))
                .replace(&addresses[0].1.to_string(), &instances.to_string())
                .replace("log-cache", &format!("log-cache{}", n + 1));
            fs::write(site.path().join(&file), text).unwrap();
            all.push(Instance {
                file,
                address: *clients,
                others: *instances,
                server: None,
                machine: machines.next().map(|machine| (machine, BadDisk::new())),
            });
        }
        Instances { site, place, all }
    }

    pub(super) fn start_all(&mut self) {
        (0..self.all.len()).for_each(|n| self.start(n));
    }

    pub(super) fn start(&mut self, n: usize) {
        let launch = Launch::new(LUCARNE).directory(self.site.path());
        let environment = self.place.environment.iter();
        let launch = environment.fold(launch, |launch, (name, value)| launch.env(name, value));
        let mut launch = launch.args(["serve", "-c", &self.all[n].file]);
        if let Some((machine, disk)) = &self.all[n].machine {
            launch = disk.under(machine.launch(launch));
        }
        let server = launch.start(self.all[n].address).unwrap();
        self.all[n].server = Some(server);
    }

    pub(super) fn server(&mut self, n: usize) -> &mut Server {
        self.all[n].server()
    }

    /// Stops an instance with SIGTERM, which must succeed.
    pub(super) fn stop(&mut self, n: usize) {
        let server = self.server(n);
        let status = server.stop(EVENT_TIMEOUT).unwrap();
        assert!(status.success(), "{status}:\n{}", server.output());
    }

    /// Waits until one instance leads and the others follow it. Returns the number of the leader.
    pub(super) async fn settled(&self) -> usize {
        // Longer than the retry interval of any operation that failed when another instance died.
        let deadline = Instant::now() + EVENT_TIMEOUT;
        loop {
            let mut states = Vec::new();
            for instance in &self.all {
                states.push(instance.health().await.unwrap_or_default());
            }
            let leads = |health: &Value| health["state"] == "running";
            let leaders = states.iter().filter(|health| leads(health)).count();
            if leaders == 1 && states.iter().all(|health| health["healthy"] == true) {
                return states.iter().position(leads).unwrap();
            }
            if Instant::now() > deadline {
                for instance in &self.all {
                    let said = instance.server.as_ref().map(Server::output);
                    println!("{}:\n{}", instance.file, tail(&said.unwrap_or_default()));
                }
                panic!("never one that leads while the others follow: {states:#?}");
            }
            // A poll with a deadline: no verdict depends on the interval.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns an auditor that reads through one instance.
    pub(super) fn audit(&self, n: usize) -> Audit {
        let (origin, key) = (format!("{}/{LOG}", self.site.address()), self.site.key(LOG));
        let url = format!("http://{}/{LOG}", self.all[n].address);
        Audit::new(&url, &origin, key.public_key_spki(), roots().as_bytes()).unwrap()
    }

    /// Waits until the log of this instance is in this state and healthy.
    pub(super) async fn reaches(&self, n: usize, state: &str) {
        eventually(&format!("{} is {state}", self.all[n].file), async || {
            let health = self.all[n].health().await.unwrap_or_default();
            health["state"] == state && health["healthy"] == true
        })
        .await;
    }
}

/// Returns the roots of the test authorities and of `lucarne load`.
fn roots() -> String {
    let theirs = load_test::authorities().join("roots.pem");
    pki().roots_pem() + &fs::read_to_string(theirs).unwrap()
}

fn loopback() -> (SocketAddr, SocketAddr) {
    let at = || SocketAddr::from(([127, 0, 0, 1], free_port()));
    (at(), at())
}

/// Returns the last lines of an output.
fn tail(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
