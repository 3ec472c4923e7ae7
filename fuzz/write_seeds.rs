//! Writes the seeds: `fuzz-seeds FOLDER`, with a folder for each target.

use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or("usage: fuzz-seeds FOLDER")?;
    let folder = PathBuf::from(folder);
    for (target, seeds) in lucarne_fuzz::seeds() {
        let folder = folder.join(target);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("{number:04}")), seed)?;
        }
    }
    Ok(())
}
