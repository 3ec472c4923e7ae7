//! Machines of a test: network namespaces inside one of the test's own, on bridges of its own.
//! What is pulled out of a machine is out, for whatever talks over it; nobody outside notices,
//! and all of it is gone with the processes of the test, however they end.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use crate::{Launch, namespace};

/// Bridges, on each of which the test itself has the first address.
#[derive(Debug)]
pub struct Network {
    bridges: &'static [&'static str],
    machines: AtomicU8,
}

impl Network {
    /// Runs the test program again for the test named `test` alone, in a network that has these
    /// bridges (short names) and loopback. Returns `None` outside, once it has passed inside or
    /// if the system permits no namespaces: then the test is skipped. No other test's name may
    /// contain `test`.
    ///
    /// # Panics
    /// If it has not passed or was not run.
    pub fn enter(test: &str, bridges: &'static [&'static str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: servers in network namespaces change their user: run as root");
            return None;
        }
        namespace::enter(test, &["--net"])?;
        // Namespaces have their names there: a /run of our own.
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
    /// If there is none of this name.
    pub fn address(&self, bridge: &str) -> Ipv4Addr {
        address(self.number(bridge), 1)
    }

    /// Makes a machine that is on all bridges.
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
    /// Returns its address on a bridge.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn address(&self, bridge: &str) -> Ipv4Addr {
        address(number(self.bridges, bridge), 10 + self.number)
    }

    /// The same process, there: with no other network than that of this machine.
    pub fn launch(&self, launch: Launch) -> Launch {
        let place = format!("--net=/run/netns/{}", self.name);
        launch.through("nsenter", [place.as_str(), "--"])
    }

    /// Pulls the cable to a bridge: what is sent over it is lost, without a word.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn cut(&self, bridge: &str) {
        ip(&format!("link set {} down", self.plug(bridge)));
    }

    /// Puts it in again.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn mend(&self, bridge: &str) {
        ip(&format!("link set {} up", self.plug(bridge)));
    }

    /// The bridge's end of the cable. Names of interfaces have 15 characters at most.
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

/// Runs `ip` with these words.
///
/// # Panics
/// If it fails.
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

    /// What a machine gets from the test's own server on a bridge.
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
        // The system takes notice of a carrier in its own time.
        assert!((0..10).any(|_| reaches(&machine, one)));
        // And nothing else: loopback is its own.
        let own = serve(Ipv4Addr::LOCALHOST);
        assert!(!reaches(&machine, own));
    }
}
