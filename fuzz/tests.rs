//! Runs each target on its seeds, and on each seed with one changed byte.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Number of changed bytes of each seed.
const CHANGES: usize = 16;

fn run_seeds(name: &str) {
    let target = lucarne_fuzz::target(name).expect("a target");
    let seeds = lucarne_fuzz::seeds()
        .remove(name)
        .expect("a target has seeds");
    for seed in seeds {
        target(&seed);
        for change in 0..CHANGES.min(seed.len()) {
            let mut changed = seed.clone();
            changed[change * seed.len() / CHANGES.min(seed.len())] ^= 1 << (change % 8);
            target(&changed);
        }
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run_seeds(stringify!($name));
            }
        )*

        #[test]
        fn every_file_is_a_target() {
            let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("targets"));
            let files = files.expect("fuzz/targets").map(|file| {
                let path = file.expect("a file").path();
                path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            });
            let names = [$(stringify!($name).to_owned()),*];
            assert_eq!(files.collect::<BTreeSet<_>>(), BTreeSet::from(names));
        }
    };
}

lucarne_fuzz::with_targets!(tests);
