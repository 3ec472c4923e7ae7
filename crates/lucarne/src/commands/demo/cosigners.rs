//! The witness and the mirror of the demo, in the process of its log.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64_simd::STANDARD;
use lucarne_net::BlockingClient;
use lucarne_tlog::{Checkpoint, SignedNote};

use crate::commands::keygen;
use crate::config::{Config, read_key, read_seed};

const WITNESS: &str = "witness.demo.example";
const MIRROR: &str = "mirror.demo.example";
const WITNESS_SEED: &str = "witness.seed";
const MIRROR_SEED: &str = "mirror.seed";
/// The directory of the copies.
const COPIES: &str = "copies";
/// The line of a log with its witness.
pub(super) const POLICY: &str = "    witnesses: policy.txt\n";
/// The lines after which logs are added.
const WITNESSED: &str = "  # Logs of the witness.\n  logs:\n";
const MIRRORED: &str = "  # Logs that the mirror copies.\n  logs:\n";

/// Maximum time until both have cosigned: the mirror reads the log every 5 s.
const LONGEST: Duration = Duration::from_secs(60);
/// Pause between two requests, and longest checkpoint with all signatures.
const PAUSE: Duration = Duration::from_millis(200);
const MAX_CHECKPOINT: usize = 64 << 10;

/// Returns the sections `witness` and `mirror` without logs.
pub(super) fn sections(listen: &str) -> String {
    format!(
        "witness:\n  name: {WITNESS}\n  secret: {WITNESS_SEED}\n  \
         submissionprefix: http://{listen}/witness/\n{WITNESSED}\n\
         mirror:\n  name: {MIRROR}\n  secret: {MIRROR_SEED}\n  \
         submissionprefix: http://{listen}/mirror/\n  localdirectory: {COPIES}\n{MIRRORED}\n"
    )
}

/// Returns whether a configuration has a witness and a mirror.
pub(super) fn are_in(text: &str) -> bool {
    text.contains(WITNESSED) && text.contains(MIRRORED)
}

/// Adds a log to a configuration with a witness and a mirror, and creates their missing files.
pub(super) fn add_log(directory: &Path, text: &str, origin: &str, seed: &Path) -> Result<String> {
    for seed in [WITNESS_SEED, MIRROR_SEED] {
        let seed = directory.join(seed);
        if !seed.exists() {
            keygen::make(&seed)?;
        }
    }
    std::fs::create_dir_all(directory.join(COPIES))?;
    let own = read_seed(&directory.join(WITNESS_SEED))?;
    let [_, witness] = lucarne_ct::witness_cosigners(&own, WITNESS)?;
    let (listen, _) = origin.split_once('/').context("the origin has no path")?;
    let policy = format!(
        "witness demo {} http://{listen}/witness/\nquorum demo\n",
        witness.verifier()
    );
    std::fs::write(directory.join("policy.txt"), policy)?;
    let spki = STANDARD.encode_to_string(read_key(seed)?.public_key_spki());
    let witnessed = format!("{WITNESSED}    - {origin} {spki}\n");
    let mirrored = format!(
        "{MIRRORED}    - {{origin: \"{origin}\", key: {spki}, from: \"http://{origin}/\"}}\n"
    );
    let text = text.replacen(WITNESSED, &witnessed, 1);
    Ok(text.replacen(MIRRORED, &mirrored, 1))
}

/// The names and the monitoring prefixes of the witness and of the mirror.
pub(super) struct Cosigners(pub(super) [(String, String); 2]);

impl Cosigners {
    /// Returns the witness and the mirror of a configuration that has both.
    pub(super) fn of(config: &Config) -> Option<Self> {
        let (witness, mirror) = (config.witness.as_ref()?, config.mirror.as_ref()?);
        Some(Cosigners([
            (
                witness.name().to_owned(),
                witness.monitoring.value.url.clone(),
            ),
            (
                mirror.name().to_owned(),
                mirror.monitoring.value.url.clone(),
            ),
        ]))
    }

    /// Waits until both have cosigned a checkpoint of `origin` with at least `size` entries, and
    /// returns the size of each.
    pub(super) fn wait(
        &self,
        client: &BlockingClient,
        origin: &str,
        size: u64,
    ) -> Result<[u64; 2]> {
        let hash = hex::encode(lucarne_ct::sha256(&[origin.as_bytes()]));
        let deadline = Instant::now() + LONGEST;
        let [mut witness, mut mirror] = [0; 2];
        loop {
            for (at, (_, url)) in [&mut witness, &mut mirror].into_iter().zip(&self.0) {
                let note = client.get(&format!("{url}{hash}/checkpoint"), MAX_CHECKPOINT);
                if let Ok(note) = note {
                    *at = Checkpoint::parse(&SignedNote::parse(&note)?.text)?.size;
                }
            }
            if witness.min(mirror) >= size {
                return Ok([witness, mirror]);
            }
            ensure!(
                Instant::now() < deadline,
                "the witness and the mirror have cosigned {witness} and {mirror} of {size} entries"
            );
            std::thread::sleep(PAUSE);
        }
    }
}
