//! The seeds of the fuzz targets. All seeds are generated here; real certificates are added if they
//! are available (CONTRIBUTING.md, "Testing").

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lucarne_ct::{
    Certificate, Chain, EntryKind, Policy, Roots, SignedTreeHead, TileLeaf, Validator,
};
use lucarne_mint::testing::Pki;
use lucarne_mint::{Authority, CaOptions, Der, KeyType, Poison, oid, pem};
use lucarne_signer::Head;
use lucarne_signer::wire::{self, Request, Wish};
use lucarne_tlog::{EMPTY_ROOT, SignedNote, TlogProof};

use crate::{HEADS, ORIGIN, cosigners, forward, log_key, record};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const NOW_MS: u64 = 1_790_000_000_000;

/// Returns the seeds of each target.
pub(crate) fn all() -> Outcome<Seeds> {
    let mut seeds = Seeds::default();
    texts(&mut seeds)?;
    let chains = minted()?;
    for chain in &chains {
        certificates(&mut seeds, chain)?;
    }
    entries(&mut seeds, &chains)?;
    for chain in real_chains() {
        certificates(&mut seeds, &chain)?;
    }
    Ok(seeds)
}

/// Inputs by target.
#[derive(Default)]
pub(crate) struct Seeds(pub(crate) BTreeMap<&'static str, Vec<Vec<u8>>>);

impl Seeds {
    fn add(&mut self, target: &'static str, seed: impl AsRef<[u8]>) {
        let seeds = self.0.entry(target).or_default();
        seeds.push(seed.as_ref().to_vec());
    }
}

/// Adds checkpoints, notes and tile paths.
fn texts(seeds: &mut Seeds) -> Outcome {
    let key = log_key();
    for (size, root, timestamp) in HEADS {
        let note = key.sign_checkpoint(ORIGIN, size, &root, timestamp)?;
        seeds.add("note", &note);
        seeds.add("signed_checkpoint", &note);
        let sth = SignedTreeHead::of_checkpoint(note.as_bytes(), ORIGIN, &key.log_id())?;
        seeds.add("signed_checkpoint", sth.to_json());
        let text = note.split_inclusive('\n').take(3).collect::<String>();
        seeds.add("checkpoint", &text);
        seeds.add("checkpoint", format!("{text}extension\n"));
        cosigned(seeds, &text, timestamp / 1000)?;
    }
    let [ed25519, ml_dsa_44] = cosigners().map(|cosigner| cosigner.verifier().to_string());
    seeds.add("policy", format!("log {ml_dsa_44}\nquorum none\n"));
    seeds.add(
        "policy",
        format!(
            "# two\nlog {ml_dsa_44} https://log.example/\nwitness A {ed25519}\n\
             witness B {ml_dsa_44} https://b.example/\ngroup G any A B\ngroup H 1 G\nquorum H\n"
        ),
    );
    seeds.add(
        "witness_list",
        format!("# Logs\n\nlogs/v0\n\nvkey {ml_dsa_44}\norigin a\nqpd 1\n\nvkey {ml_dsa_44}\n"),
    );
    seeds.add("vkey", ed25519);
    seeds.add("vkey", ml_dsa_44);
    seeds.add("log_list", log_list());
    seeds.add("witness_list", log_list());
    for kind in 0..5 {
        // Unchanged, with another key, and with a changed byte in digest, key and signature.
        seeds.add("signature", [kind, 0, 0, 0, 7]);
        seeds.add("signature", [kind, 1, 2, 0]);
        for what in [0, 1, 2, 10, 18] {
            seeds.add("signature", [kind, 3, 3, 1, what, 100, 1, 7, 7]);
        }
    }
    for path in [
        "tile/0/000",
        "tile/0/x001/234.p/5",
        "tile/5/000.p/255",
        "tile/data/x999/x001/000",
        "tile/data/001.p/1",
    ] {
        seeds.add("tile_path", path);
    }
    Ok(())
}

/// Adds a cosigned checkpoint, and proofs that lead to this checkpoint.
fn cosigned(seeds: &mut Seeds, text: &str, time: u64) -> Outcome {
    let mut note = SignedNote {
        text: text.to_owned(),
        signatures: Vec::new(),
    };
    for cosigner in cosigners() {
        note.signatures.push(cosigner.cosign(text, time)?);
        seeds.add("cosigned", note.encode());
    }
    for extra in [None, Some(vec![7; 20])] {
        let proof = TlogProof {
            extra,
            index: 69_999,
            proof: vec![HEADS[1].1; 17],
            checkpoint: note.clone(),
        };
        seeds.add("tlog_proof", proof.to_string());
    }
    for first in ["old 0\n", &format!("subtree 0 0\n{EMPTY_ROOT}\n")] {
        for hashes in [0, 1, 63, 64] {
            let proof = format!("{EMPTY_ROOT}\n").repeat(hashes);
            seeds.add("witness_request", format!("{first}{proof}\n{note}"));
        }
    }
    uploads(seeds);
    Ok(())
}

/// Adds uploads to a mirror: each with a ticket, and packages of entries of two bytes.
fn uploads(seeds: &mut Seeds) {
    seeds.add("mirror_upload", b"300\n256\ndGlja2V0\n");
    for (start, end) in [(0_u64, 0_u64), (0, 2), (255, 258), (300, 299)] {
        for hashes in [0_u8, 63, 64] {
            let mut body = [0, ORIGIN.len() as u8].to_vec();
            body.extend_from_slice(ORIGIN.as_bytes());
            body.extend_from_slice(&start.to_be_bytes());
            body.extend_from_slice(&end.to_be_bytes());
            body.extend_from_slice(b"\0\x06ticket");
            for index in start..end {
                body.extend_from_slice(b"\0\x02ab");
                if index % 256 == 255 || index + 1 == end {
                    body.push(hashes);
                    body.resize(body.len() + usize::from(hashes) * 32, 7);
                }
            }
            seeds.add("mirror_upload", body);
        }
    }
}

/// Returns an OCSP response (RFC 6960 section 4.2.1) with this list of SCTs.
fn ocsp_response(scts: &[u8]) -> Vec<u8> {
    const TIME: (u8, &[u8]) = (0x18, b"20260701000000Z");
    let single = |der: &mut Der| {
        der.sequence(|der| der.octet_string(b"certID"));
        der.context_primitive(0, &[]);
        der.put(TIME.0, TIME.1);
        der.context(1, |der| {
            der.sequence(|der| {
                der.sequence(|der| {
                    der.put(6, &[0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 5]);
                    der.octet_string(&Der::build(|der| der.octet_string(scts)));
                });
            });
        });
    };
    let basic = Der::build(|der| {
        der.sequence(|der| {
            der.sequence(|der| {
                der.context(2, |der| der.octet_string(b"key"));
                der.put(TIME.0, TIME.1);
                der.sequence(|der| der.sequence(single));
            });
        });
    });
    Der::build(|der| {
        der.sequence(|der| {
            der.put(0x0a, &[0]);
            der.context(0, |der| {
                der.sequence(|der| {
                    der.put(6, &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1]);
                    der.octet_string(&basic);
                });
            });
        });
    })
}

/// Returns a log list, version 3, with all its parts.
fn log_list() -> String {
    let key = log_key();
    let base64 = base64_simd::STANDARD.encode_to_string(key.public_key_spki());
    let id = key.log_id();
    format!(
        r#"{{"version":"1.0","log_list_timestamp":"2026-07-01T00:00:00Z","operators":[{{"name":"A",
        "logs":[{{"description":"one","log_id":"{id}","key":"{base64}","url":"https://a.example/","mmd":86400,
        "state":{{"retired":{{"timestamp":"2026-07-01T00:00:00Z"}}}},
        "temporal_interval":{{"start_inclusive":"2026-01-01T00:00:00Z","end_exclusive":"2027-01-01T00:00:00Z"}},
        "previous_operators":[{{"name":"B","end_time":"2025-01-01T00:00:00Z"}}]}}],
        "tiled_logs":[{{"log_id":"{id}","key":"{base64}","submission_url":"s","monitoring_url":"m"}}]}}]}}"#
    )
}

/// A chain of DER certificates, the root last.
type Ders = Vec<Vec<u8>>;

/// Mints certificates and precertificates of each intermediate, poisons of every kind, and a
/// precertificate from a Precertificate Signing Certificate.
fn minted() -> Outcome<Vec<Ders>> {
    let pki = Pki::new()?;
    let signing = pki
        .p256
        .precert_signing(&CaOptions::named("Signer", KeyType::EcdsaP256))?;
    let mut chains = Vec::new();
    let mut issue = |issuer: &Authority, poison| -> Outcome {
        let mut leaf = pki.leaf("fuzz.example");
        leaf.poison = poison;
        leaf.scts = 2;
        chains.push(issuer.full_chain(issuer.issue(&leaf)?).into_certificates());
        Ok(())
    };
    for issuer in [&pki.root, &pki.rsa, &pki.p256, &pki.p384] {
        issue(issuer, None)?;
        issue(issuer, Some(Poison::Last))?;
    }
    issue(&signing, Some(Poison::Last))?;
    for poison in [
        Poison::First,
        Poison::Middle,
        Poison::NonCritical,
        Poison::NonNull,
        Poison::Twice,
    ] {
        issue(&pki.p256, Some(poison))?;
    }
    Ok(chains)
}

/// Adds the seeds from the certificates of a chain: JSON bodies, certificates, SCT lists, PEM, CSV.
fn certificates(seeds: &mut Seeds, chain: &Ders) -> Outcome {
    let json = lucarne_mint::Chain::new(chain.clone()).to_json();
    seeds.add("chain_json", &json);
    seeds.add("submission", &json);
    for der in chain {
        seeds.add("certificate", der);
    }
    let leaf = &chain[0];
    let parsed = Certificate::parse(leaf).ok();
    if let Some(list) = parsed.and_then(|leaf| leaf.embedded_scts().ok()?) {
        seeds.add("sct_list", list);
        seeds.add("ocsp_scts", ocsp_response(list));
    }
    let poison = parsed.and_then(|leaf| leaf.extension(oid::POISON.as_bytes()));
    let issuer = chain.get(1).map_or(&[][..], Vec::as_slice);
    let length = u16::try_from(leaf.len())?.to_be_bytes();
    seeds.add("lint", [&length, leaf.as_slice(), issuer].concat());
    if poison.is_some() {
        seeds.add("precert_tbs", [&length, leaf.as_slice(), issuer].concat());
    }
    let pem: String = chain
        .iter()
        .map(|der| pem::encode("CERTIFICATE", der))
        .collect();
    seeds.add("roots_pem", format!("# a comment\n{pem}"));
    let last = chain
        .last()
        .map(|der| pem::encode("CERTIFICATE", der))
        .unwrap_or_default();
    let header = "CA Owner,Certificate Record Type,Mozilla Status,X.509 Certificate (PEM)";
    let csv = format!("{header}\nan owner,Root Certificate,Included,\"'{last}'\"\n");
    seeds.add("ccadb_csv", csv);
    Ok(())
}

/// Adds the seeds that a log creates from accepted chains: leaves, records, SCTs.
fn entries(seeds: &mut Seeds, chains: &[Ders]) -> Outcome {
    let (mut tile, mut items) = (Vec::new(), Vec::new());
    let key = log_key();
    for (chain, index) in chains.iter().zip(0..) {
        let mut roots = Roots::new();
        roots.add(chain.last().ok_or("an empty chain")?)?;
        let validator = Validator::new(Arc::new(roots), Policy::default());
        let chain = Chain::from_ders(chain).map_err(|rejection| rejection.detail)?;
        for kind in [EntryKind::X509, EntryKind::Precert] {
            let examined = validator.examine(&chain, kind, NOW_MS);
            let Ok(entry) = examined.and_then(|examined| validator.verify(examined)) else {
                continue;
            };
            TileLeaf::encode(NOW_MS, &entry, index, &mut tile);
            seeds.add(
                "sct_json",
                key.sign_sct(NOW_MS, &entry.signed, index)?.to_json(),
            );
            items.push(forward::Item {
                entry,
                not_before_ms: Some(NOW_MS as i64),
            });
        }
        seeds.add("tile_leaf", &tile);
    }
    items.truncate(forward::MOST_ENTRIES);
    seeds.add("batch", forward::Batch::encode(&[7; 32], &items));
    let placed = forward::Outcome::Placed {
        index: 1,
        timestamp_ms: NOW_MS,
    };
    let answer = forward::Answer {
        status: forward::Status::Taken,
        pressure: forward::Pressure {
            depth: 1,
            drain_rate: 1,
        },
        outcomes: vec![placed, forward::Outcome::Lost],
    };
    seeds.add("batch", answer.encode());
    let mut writer = record::RecordWriter::with_capacity(tile.len());
    writer.entries().extend_from_slice(&tile);
    let step = record::Step {
        old_size: 0,
        new_size: chains.len() as u64,
        timestamp_ms: NOW_MS,
        old_root: HEADS[0].1,
        new_root: HEADS[1].1,
    };
    let issuers = chains
        .iter()
        .filter_map(|chain| chain.last())
        .map(Vec::as_slice);
    seeds.add("round_record", writer.finish(&step, issuers).0);
    signer_requests(seeds, tile);
    Ok(())
}

fn signer_requests(seeds: &mut Seeds, leaf: Vec<u8>) {
    let (size, root, timestamp_ms) = HEADS[2];
    let head = Head {
        size,
        root,
        timestamp_ms,
    };
    let proof = vec![root; 3];
    let leaf = Wish::Leaf {
        size,
        index: 1,
        proof: proof.clone(),
        leaf: &leaf,
    };
    for wish in [Wish::Last, Wish::Head { head, proof }, leaf] {
        let log_id = log_key().log_id();
        let frame = Request { log_id, wish }.encode();
        // The frame starts with its length.
        seeds.add("signer_request", &frame[4..]);
    }
    let signatures = wire::encode_signatures(&[vec![1; 70], vec![2; 72]]);
    let response = wire::encode_response(wire::Status::Done, &signatures);
    seeds.add("signer_request", &response[4..]);
}

/// Returns the chains in the corpus of real certificates, or no chains if the corpus is absent.
fn real_chains() -> Vec<Ders> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let corpus = std::env::var_os("LUCARNE_CORPUS").map_or_else(beside, PathBuf::from);
    let mut chains = Vec::new();
    let mut folders = vec![corpus];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).into_iter().flatten().flatten() {
            if file.path().is_dir() {
                folders.push(file.path());
            } else {
                chains.extend(read_chain(&file.path()));
            }
        }
    }
    chains
}

/// Reads the chain in a PEM file. Returns `None` for a file without a chain or with an overlong
/// one.
fn read_chain(file: &Path) -> Option<Ders> {
    let pem = fs::read_to_string(file).ok()?;
    let chain: Ders = pem::decode(&pem)
        .ok()?
        .into_iter()
        .map(|(_, der)| der)
        .collect();
    let sizes = 1..=65_535;
    ((1..10).contains(&chain.len()) && chain.iter().all(|der| sizes.contains(&der.len())))
        .then_some(chain)
}
