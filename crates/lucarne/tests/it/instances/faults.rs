//! Faults of every class on three machines with one instance each, one after the other. The log is
//! under load from `lucarne load` and from clients whose SCTs are audited after each fault.
//!
//! By default a run has a few faults, chosen by a fixed seed that it prints.
//! `LUCARNE_INSTANCE_FAULTS=100` sets their number, with pauses of up to a minute, and
//! `LUCARNE_SEED` the seed. `LUCARNE_FAULT=Paused` selects classes whose names contain this text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lucarne_testkit::{
    Bucket, DatabaseKind, DatabaseServer, Launch, Network, ObjectStore, Place, Server, Signal,
    TempDir, temp_dir,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use tokio::task::JoinSet;

use super::clients::Clients;
use super::group::{BRIDGES, CLIENTS, DATABASE, INSTANCES, Instances, LOG, STORE};
use crate::common::load_test::{authorities, rows};
use crate::common::{EVENT_TIMEOUT, LUCARNE, run};

/// Faults for each kind of lock in a default run.
const FEW: usize = 3;
/// The time after which a client sends a request to the next instance.
const BALANCER: Duration = Duration::from_millis(2500);
/// SCTs after which a new log is used, because each fault is followed by a complete audit.
const LARGEST: usize = 3000;

/// The classes of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// `kill -9`.
    Killed,
    /// SIGTERM.
    Stopped,
    /// SIGSTOP, and SIGCONT later.
    Paused,
    /// Network cut to the store, and to the lock if it is in the bucket.
    CutFromStore,
    CutFromDatabase,
    CutFromInstances,
    CutFromAll,
    /// The clocks of two machines are set ten seconds apart, or corrected.
    ClocksSet,
    /// All instances are stopped and started, one after the other, as in an upgrade.
    Upgraded,
}

impl Class {
    const ALL: [Class; 9] = [
        Class::Killed,
        Class::Stopped,
        Class::Paused,
        Class::CutFromStore,
        Class::CutFromDatabase,
        Class::CutFromInstances,
        Class::CutFromAll,
        Class::ClocksSet,
        Class::Upgraded,
    ];

    /// The networks that are cut.
    fn cables(self) -> &'static [&'static str] {
        match self {
            Class::CutFromStore => &[STORE],
            Class::CutFromDatabase => &[DATABASE],
            Class::CutFromInstances => &[INSTANCES],
            Class::CutFromAll => &[STORE, DATABASE, INSTANCES, CLIENTS],
            _ => &[],
        }
    }
}

/// The faults of a run. Every class occurs once before any repeats.
struct Faults {
    lock: &'static str,
    classes: Vec<Class>,
    deck: Vec<Class>,
    luck: StdRng,
    seed: u64,
    count: usize,
    done: usize,
    by_hand: bool,
    /// The count of each class, and the longest time without an SCT.
    struck: BTreeMap<Class, (usize, Duration)>,
}

impl Faults {
    fn new(lock: &'static str, has_database: bool) -> Self {
        let number = |name: &str| {
            let value = std::env::var(name).ok()?;
            let number = value.parse::<u64>();
            Some(number.unwrap_or_else(|_| panic!("{name} is a number")))
        };
        let count = number("LUCARNE_INSTANCE_FAULTS");
        // The default run has the same faults every time.
        let seed = number("LUCARNE_SEED").unwrap_or_else(|| match count {
            Some(_) => rand::random(),
            None => 1,
        });
        let only = std::env::var("LUCARNE_FAULT").ok();
        let there = |class: &Class| {
            let is_meant = |only: &String| format!("{class:?}").contains(only);
            (has_database || *class != Class::CutFromDatabase) && only.as_ref().is_none_or(is_meant)
        };
        Faults {
            lock,
            classes: Class::ALL.into_iter().filter(there).collect(),
            deck: Vec::new(),
            luck: StdRng::seed_from_u64(seed),
            seed,
            count: count.map_or(FEW, |count| count as usize),
            done: 0,
            by_hand: count.is_some(),
            struck: BTreeMap::new(),
        }
    }

    fn next(&mut self) -> Option<Class> {
        if self.done == self.count {
            return None;
        }
        if self.deck.is_empty() {
            self.deck.clone_from(&self.classes);
            self.deck.shuffle(&mut self.luck);
        }
        self.done += 1;
        self.deck.pop()
    }

    /// Returns the duration of a fault: often short, sometimes long.
    fn lasting(&mut self, class: Class) -> Duration {
        let longest = match (self.by_hand, class) {
            (false, _) => 4.0,
            (true, Class::Paused) => 60.0,
            (true, _) => 20.0,
        };
        let luck: f64 = self.luck.random();
        Duration::from_secs_f64(1.0 + (longest - 1.0) * luck.powi(4))
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        let Faults {
            lock, seed, done, ..
        } = self;
        if std::thread::panicking() {
            println!("{lock}: LUCARNE_SEED={seed} LUCARNE_INSTANCE_FAULTS={done} fails");
            return;
        }
        println!("{lock}: {done} faults, 0 lost, LUCARNE_SEED={seed}");
        for (class, (times, gap)) in &self.struck {
            println!("  {class:?}: {times}, at most {gap:.1?} without SCTs");
        }
    }
}

/// A log on three machines, with its clients.
struct Day {
    instances: Instances,
    clients: Arc<Clients>,
    at_work: JoinSet<()>,
    load: LoadTest,
    apart: bool,
}

impl Day {
    async fn begin(network: &Network, place: Place) -> Self {
        let machines = (0..3).map(|_| network.machine()).collect();
        let mut instances = Instances::on(network, machines, place);
        instances.start_all();
        instances.settled().await;
        let clients = Clients::new(&instances, BALANCER);
        let at_work = clients.go_to_work(4, Duration::from_millis(50));
        let load = LoadTest::of(&instances);
        clients.go_on().await;
        Day {
            instances,
            clients,
            at_work,
            load,
            apart: false,
        }
    }

    /// Causes one fault on the leader or another instance, and checks that all recover.
    async fn suffer(&mut self, class: Class, faults: &mut Faults) {
        let leader = self.instances.settled().await;
        let victim = if faults.luck.random_bool(0.7) {
            leader
        } else {
            faults.luck.random_range(0..self.instances.all.len())
        };
        let who = ["another", "the leader"][usize::from(victim == leader)];
        let (at, lasting) = (Instant::now(), faults.lasting(class));
        self.strike(class, victim, lasting).await;
        self.instances.settled().await;
        self.clients.go_on().await;
        let gap = self.clients.gap(at);
        let audited = self.clients.audited(victim).await;
        println!(
            "{} {}: {class:?}, {who}, {lasting:.1?}: {gap:.1?} without SCTs; {}",
            faults.lock,
            faults.done,
            audited.trim_end()
        );
        let (times, longest) = faults.struck.entry(class).or_default();
        *times += 1;
        *longest = gap.max(*longest);
    }

    async fn strike(&mut self, class: Class, victim: usize, lasting: Duration) {
        match class {
            Class::Killed => {
                self.instances.server(victim).kill().unwrap();
                self.clients.go_on().await;
                self.instances.start(victim);
            }
            Class::Stopped => {
                self.instances.stop(victim);
                self.clients.go_on().await;
                self.instances.start(victim);
            }
            Class::Paused => {
                let server = self.instances.server(victim);
                server.signal(Signal::STOP).unwrap();
                // The pause lasts at least this long: the instances must survive any length.
                tokio::time::sleep(lasting).await;
                server.signal(Signal::CONT).unwrap();
            }
            Class::Upgraded => {
                for n in 0..self.instances.all.len() {
                    self.instances.stop(n);
                    self.instances.start(n);
                    self.instances.settled().await;
                }
            }
            Class::ClocksSet => {
                self.apart = !self.apart;
                let steps = if self.apart { [-5000, 0, 5000] } else { [0; 3] };
                for (instance, step) in self.instances.all.iter().zip(steps) {
                    let (_, disk) = instance.machine.as_ref().unwrap();
                    disk.step_clock(step);
                }
                // An instance whose clock may be behind will lead.
                self.instances.server(victim).kill().unwrap();
                self.instances.start(victim);
            }
            _ => {
                let (machine, _) = self.instances.all[victim].machine.as_ref().unwrap();
                for cable in class.cables() {
                    machine.cut(cable);
                }
                // The cut lasts at least this long: the instances must survive any length.
                tokio::time::sleep(lasting).await;
                for cable in class.cables() {
                    machine.mend(cable);
                }
            }
        }
    }

    async fn end(mut self) {
        self.instances.settled().await;
        self.clients.end(self.at_work).await;
        self.load.end();
        self.clients.all_audited().await;
        for n in 0..self.instances.all.len() {
            self.instances.stop(n);
        }
    }
}

/// `lucarne load` of all instances, during the whole day.
struct LoadTest {
    process: Server,
    directory: TempDir,
}

impl LoadTest {
    fn of(instances: &Instances) -> Self {
        let directory = temp_dir();
        let origin = format!("{}/{LOG}", instances.site.address());
        let key = instances.site.key(LOG);
        let key = base64_simd::STANDARD.encode_to_string(key.public_key_spki());
        let mut launch = Launch::new(LUCARNE)
            .args(["load", "ct-write", "--roots"])
            .arg(authorities())
            .args(["--rate", "6", "--duration", "10h", "--expect-restarts"])
            // The limits exceed the longest cut and the difference of clocks.
            .args(["--mmd", "5m", "--max-checkpoint-age", "5m"])
            .args(["--clock-tolerance", "15s", "--timeout", "8s"])
            .args(["--no-ui", "--summary", "summary.json"])
            .directory(directory.path());
        for instance in &instances.all {
            let url = format!("http://{}/{LOG}", instance.address);
            launch = launch.args(["--log-url", &url, "--origin", &origin]);
            launch = launch.args(["--log-public-key", &key]);
        }
        let mut process = launch.spawn().unwrap();
        // The load test has reached all instances, and submits to them.
        process.wait_for_output("busy=", EVENT_TIMEOUT).unwrap();
        LoadTest { process, directory }
    }

    /// Ends the load test, and checks that it found no invalid response.
    fn end(&mut self) {
        self.process.signal(Signal::INT).unwrap();
        self.process.wait(EVENT_TIMEOUT).unwrap();
        let said = self.process.output();
        let summary = std::fs::read(self.directory.path().join("summary.json"));
        let summary = summary.unwrap_or_else(|error| panic!("{error}:\n{said}"));
        let summary: Value = serde_json::from_slice(&summary).unwrap();
        let wrong: Vec<_> = rows(&summary, "checks")
            .into_iter()
            .filter(|check| check["fails"].as_u64() > Some(0))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}\n{said}");
        let told = ["entries promised", "away "];
        let lines = said
            .lines()
            .filter(|line| told.iter().any(|part| line.contains(part)));
        lines.for_each(|line| println!("lucarne load: {}", line.trim()));
    }
}

/// Causes the requested number of faults, on one log after the other.
async fn one_after_the_other(
    network: &Network,
    mut faults: Faults,
    mut place: impl AsyncFnMut() -> Place,
) {
    let mut day = Day::begin(network, place().await).await;
    while let Some(class) = faults.next() {
        if day.clients.promised() > LARGEST {
            day.end().await;
            day = Day::begin(network, place().await).await;
        }
        day.suffer(class, &mut faults).await;
    }
    day.end().await;
}

async fn with_database(network: &Network, store: ObjectStore, kind: DatabaseKind) {
    let store = Arc::new(store);
    let server = DatabaseServer::start_at(network.address(DATABASE), kind).unwrap();
    let faults = Faults::new(["MariaDB", "PostgreSQL"][kind as usize], true);
    one_after_the_other(network, faults, async || {
        let bucket = Bucket::new(store.clone()).await.unwrap();
        Place::bucket(&bucket, None).with_lock(&server).unwrap()
    })
    .await;
}

#[test]
fn faults_with_mariadb_lose_nothing() {
    let Some(network) = Network::enter("faults_with_mariadb", &BRIDGES) else {
        return;
    };
    let store = ObjectStore::minio_at(network.address(STORE)).unwrap();
    run(with_database(&network, store, DatabaseKind::MariaDb));
}

#[test]
fn faults_with_postgresql_lose_nothing() {
    let Some(network) = Network::enter("faults_with_postgresql", &BRIDGES) else {
        return;
    };
    let store = ObjectStore::versitygw_at(network.address(STORE)).unwrap();
    run(with_database(&network, store, DatabaseKind::Postgres));
}

#[test]
fn faults_in_a_bucket_alone_lose_nothing() {
    let Some(network) = Network::enter("faults_in_a_bucket_alone", &BRIDGES) else {
        return;
    };
    let store = Arc::new(ObjectStore::versitygw_at(network.address(STORE)).unwrap());
    let faults = Faults::new("a bucket alone", false);
    run(one_after_the_other(&network, faults, async || {
        Place::bucket(&Bucket::new(store.clone()).await.unwrap(), None)
    }));
}
