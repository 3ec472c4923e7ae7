//! The other side of a handover, driven by a test, which may stop at any step.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use lucarne_ct::LogKey;
use lucarne_testkit::{EVENT_TIMEOUT, LogUnderTest};
use serde_json::{Value, json};

/// A process that requests the logs of the running process.
pub(super) struct Asker {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Asker {
    pub(super) fn connect(log: &LogUnderTest) -> Self {
        let stream = UnixStream::connect(log.path().join("handover.sock")).unwrap();
        stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        Asker { stream, lines }
    }

    pub(super) fn say(&mut self, message: &Value) {
        writeln!(self.stream, "{message}").unwrap();
    }

    /// Returns the next message of the other side; null after its end.
    pub(super) fn hear(&mut self) -> Value {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(1..) => serde_json::from_str(&line).unwrap(),
            _ => Value::Null,
        }
    }

    /// Sends the requests of a process with the same configuration, up to the offer.
    pub(super) fn offered(log: &LogUnderTest) -> Self {
        loop {
            let mut asker = Self::connect(log);
            asker.say(&hello(log));
            let offer = asker.hear();
            match offer["refused"].as_str() {
                // The server has not noticed yet that the previous process has ended.
                Some(why) if why.contains("is taking over now") => {}
                _ => {
                    assert!(offer["offer"].is_object(), "{offer}");
                    return asker;
                }
            }
        }
    }
}

/// Returns the first message of a process with the same configuration.
pub(super) fn hello(log: &LogUnderTest) -> Value {
    let seed = fs::read(log.path().join("seed.bin")).unwrap();
    let id = LogKey::from_seed(&seed).unwrap().log_id().to_string();
    json!({"hello": {
        "protocol": 1,
        "version": "0.0.0",
        "lock": file(&log.path().join("lock.sqlite")),
        "logs": [{"name": "test", "id": id, "data": file(&log.data())}],
    }})
}

fn file(path: &Path) -> String {
    let there = path.metadata().unwrap();
    format!("file {}:{}", there.dev(), there.ino())
}
