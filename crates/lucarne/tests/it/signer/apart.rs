//! A log with a separate signer.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use lucarne_ct::verify_checkpoint;
use lucarne_testkit::{Launch, LogUnderTest, Server, block_until, temp_dir};

use crate::common::{LUCARNE, all, edit, log, pki};

/// A log whose key is held by a separate signer.
pub(crate) struct Apart {
    pub(crate) log: LogUnderTest,
}

impl Apart {
    /// Creates a log with its key, and then moves the key to a signer.
    pub(crate) fn new() -> Self {
        let apart = Self::of(log("period: 20"));
        let (code, said) = apart.signer_task(&["adopt", "data/checkpoint"]);
        assert_eq!(code, 0, "{said}");
        apart
    }

    /// Prepares a log without creating it.
    pub(super) fn prepare() -> Self {
        let roots = pki().root.certificate_pem();
        Self::of(LogUnderTest::prepare(LUCARNE, &roots, "period: 20").unwrap())
    }

    fn of(log: LogUnderTest) -> Self {
        let directory = log.path();
        let secret = format!("secret: {}/seed.bin", directory.display());
        let key = lucarne_mint::pem::encode("PUBLIC KEY", log.public_key());
        fs::write(directory.join("key.pem"), key).unwrap();
        let apart = "signer: signer.sock\n    publickey: key.pem";
        edit(&log.configuration(), &secret, apart);
        let apart = Self { log };
        apart.configure(&rustix::process::geteuid().as_raw().to_string());
        apart
    }

    fn configure(&self, user: &str) {
        let text = format!(
            "socket: signer.sock\nmemory: memory\nusers: [{user}]\n\
             logs:\n  - origin: {}\n    secret: seed.bin\n",
            self.log.origin()
        );
        fs::write(self.log.path().join("signer.yaml"), text).unwrap();
    }

    /// Runs `lucarne signer` to its end. Returns the exit code and the whole output.
    pub(super) fn signer_task(&self, args: &[&str]) -> (i32, String) {
        let launch = self.log.command().arg("signer").args(args);
        let output = launch.run().unwrap();
        (output.status.code().unwrap_or(-1), all(&output))
    }

    pub(super) fn start_signer(&self) -> Server {
        self.start_signer_for(&rustix::process::geteuid().as_raw().to_string())
    }

    /// Starts the signer, which accepts only this user.
    pub(super) fn start_signer_for(&self, user: &str) -> Server {
        self.configure(user);
        self.start_signer_by(self.log.command())
    }

    /// Starts a signer with this command.
    pub(crate) fn start_signer_by(&self, command: Launch) -> Server {
        let signer = command.arg("signer").spawn().unwrap();
        let socket = self.log.path().join("signer.sock");
        block_until("the signer listens", || {
            UnixStream::connect(&socket).is_ok()
        });
        signer
    }

    /// The file of the signer's memory.
    pub(super) fn memory(&self) -> PathBuf {
        let log_id = lucarne_ct::sha256(&[self.log.public_key()]);
        self.log.path().join("memory").join(hex(&log_id))
    }

    /// Returns the size of the last signed tree.
    pub(super) fn remembered(&self) -> u64 {
        let note = fs::read(self.memory()).unwrap();
        let verified = verify_checkpoint(&note, &self.log.origin(), self.log.public_key());
        verified.unwrap().0.size
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A copy of all files of a log, except those of its signer.
pub(super) struct Copied(tempfile::TempDir);

const PARTS: [&str; 3] = ["data", "cache", "lock.sqlite"];

impl Copied {
    pub(super) fn of(apart: &Apart) -> Self {
        let copied = Self(temp_dir());
        copy(apart.log.path(), copied.0.path());
        copied
    }

    pub(super) fn restore(&self, apart: &Apart) {
        for part in PARTS {
            let place = apart.log.path().join(part);
            if place.is_dir() {
                fs::remove_dir_all(place).unwrap();
            } else {
                fs::remove_file(place).unwrap();
            }
        }
        copy(self.0.path(), apart.log.path());
    }
}

fn copy(from: &Path, to: &Path) {
    for part in PARTS {
        let copied = Command::new("cp")
            .arg("-a")
            .args([from.join(part), to.join(part)])
            .status();
        assert!(copied.unwrap().success(), "{part}");
    }
}
