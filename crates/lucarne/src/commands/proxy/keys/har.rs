//! Keys under `har`.

use lucarne_proxy::{HostPattern, PatternError};
use lucarne_settings::form::{Each, Shape, Words};
use lucarne_settings::section;
use lucarne_settings::values::parsed;

use super::super::config::Config;

section! {
    for Config = [Config::default()];

    /// file of at most 64 MiB; a file of an earlier run is continued
    #[beside("`--har`")]
    file: Shape = Shape::Text, "required";

    /// hosts of the recording
    hosts: Each<HostPattern, PatternError> = Each(parsed), "all" => har_hosts;

    /// `none`, or `all`: the first MiB of each body, and at most 64 MiB of bodies in memory
    bodies: Words<bool> = Words(&[("none", false), ("all", true)]), "`none`" => har_bodies;
}
