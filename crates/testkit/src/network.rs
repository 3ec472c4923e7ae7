//! Simulated machines for a test: network namespaces inside the test's own namespace, on separate
//! bridges. A disconnected cable affects all traffic over it, but nothing outside the test.
//! Everything is removed when the processes of the test end for any reason.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use crate::{Launch, namespace};

/// The bridges. The test has the first address on each bridge.
#[derive(Debug)]
pub struct Network {
    bridges: &'static [&'static str],
    machines: AtomicU8,
}

impl Network {
    /// Runs the test program again for the test named `test` alone, in a network with these bridges
    /// (short names) and loopback. Returns `None` outside, after the test has passed inside, or if
    /// the system permits no namespaces: then the test is skipped. No other test's name may contain
    /// `test`.
    ///
    /// # Panics
    /// If the test has not passed or was not run.
    pub fn enter(test: &str, bridges: &'static [&'static str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: servers in network namespaces change their user: run as root");
            return None;
        }
        namespace::enter(test, &["--net"])?;
        // Names of namespaces are in /run, so the test gets a private /run.
        namespace::mount(&["-t", "tmpfs", "machines", "/run"]);
        ip("link set lo up");
        for (number, bridge) in bridges.iter().enumerate() {
            ip(&format!("link add {bridge} type bridge"));
            let own = address(number, 1);
            ip(&format!("addr add {own}/24 dev {bridge}"));
            ip(&format!("link set {bridge} up"));
        }
        Some(Self {
            bridges,
            machines: AtomicU8::new(0),
        })
    }

    /// Returns the test's address on a bridge.
    ///
    /// # Panics
    /// If there is no bridge with this name.
    pub fn address(&self, bridge: &str) -> Ipv4Addr {
        address(self.number(bridge), 1)
    }

    /// Creates a machine that is connected to all bridges.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn machine(&self) -> Machine {
        let number = self.machines.fetch_add(1, SeqCst) + 1;
        let machine = Machine {
            name: format!("machine{number}"),
            number,
            bridges: self.bridges,
        };
        let name = &machine.name;
        ip(&format!("netns add {name}"));
        ip(&format!("-n {name} link set lo up"));
        for bridge in self.bridges {
            let plug = machine.plug(bridge);
            ip(&format!(
                "link add {plug} type veth peer name {bridge} netns {name}"
            ));
            let own = machine.address(bridge);
            ip(&format!("-n {name} addr add {own}/24 dev {bridge}"));
            ip(&format!("-n {name} link set {bridge} up"));
            ip(&format!("link set {plug} master {bridge} up"));
        }
        machine
    }

    fn number(&self, bridge: &str) -> usize {
        number(self.bridges, bridge)
    }
}

/// A machine: a network namespace with a cable to each bridge.
#[derive(Debug)]
pub struct Machine {
    name: String,
    number: u8,
    bridges: &'static [&'static str],
}

impl Machine {
    /// Returns the machine's address on a bridge.
    ///
    /// # Panics
    /// If there is no bridge with this name.
    pub fn address(&self, bridge: &str) -> Ipv4Addr {
        address(number(self.bridges, bridge), 10 + self.number)
    }

    /// Returns the same command, run on this machine with no other network.
    pub fn launch(&self, launch: Launch) -> Launch {
        let place = format!("--net=/run/netns/{}", self.name);
        launch.through("nsenter", [place.as_str(), "--"])
    }

    /// Disconnects the cable to a bridge: packets over it are lost silently.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn cut(&self, bridge: &str) {
        ip(&format!("link set {} down", self.plug(bridge)));
    }

    /// Connects the cable again.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn mend(&self, bridge: &str) {
        ip(&format!("link set {} up", self.plug(bridge)));
    }

    /// Returns the name of the interface at the bridge's end of the cable. Names of interfaces have
    /// at most 15 characters.
    fn plug(&self, bridge: &str) -> String {
        format!("{bridge}-{}", self.number)
    }
}

fn number(bridges: &[&str], bridge: &str) -> usize {
    let found = bridges.iter().position(|known| *known == bridge);
    found.unwrap_or_else(|| panic!("no bridge is called `{bridge}`"))
}

fn address(bridge: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, bridge as u8, host)
}

/// Runs `ip` with these arguments.
///
/// # Panics
/// If the command fails.
fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    let status = status.expect("`ip` (package iproute2) is needed for this test");
    assert!(status.success(), "ip {words}");
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    const BRIDGES: [&str; 2] = ["one", "two"];

    /// Returns `true` if a machine gets data from the test's own server on a bridge.
    fn reaches(machine: &Machine, server: SocketAddr) -> bool {
        let (host, port) = (server.ip(), server.port());
        let script = format!("exec 3<>/dev/tcp/{host}/{port} && head -c 2 <&3");
        let launch = Launch::new("timeout").args(["2", "bash", "-c", &script]);
        machine.launch(launch).run().unwrap().stdout == b"hi"
    }

    fn serve(address: Ipv4Addr) -> SocketAddr {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream: TcpStream = stream;
                let _ = std::io::Write::write_all(&mut stream, b"hi");
                let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
                let _ = stream.read(&mut [0]);
            }
        });
        at
    }

    #[test]
    fn a_cable_that_is_pulled_is_out_and_no_other_is() {
        let Some(network) = Network::enter("a_cable_that_is_pulled", &BRIDGES) else {
            return;
        };
        let (machine, other) = (network.machine(), network.machine());
        let [one, two] = BRIDGES.map(|bridge| serve(network.address(bridge)));
        assert!(reaches(&machine, one) && reaches(&machine, two));
        machine.cut("one");
        assert!(!reaches(&machine, one));
        assert!(reaches(&machine, two) && reaches(&other, one));
        machine.mend("one");
        // The kernel notices a carrier with a delay.
        assert!((0..10).any(|_| reaches(&machine, one)));
        // Nothing else is reachable: the machine has its own loopback.
        let own = serve(Ipv4Addr::LOCALHOST);
        assert!(!reaches(&machine, own));
    }
}
