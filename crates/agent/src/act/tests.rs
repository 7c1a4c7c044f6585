mod bursts;
mod chaos;
mod four_classes;
mod off;
mod rig;
mod wishes;
