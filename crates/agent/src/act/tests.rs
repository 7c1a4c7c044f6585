mod bursts;
mod chaos;
mod four_classes;
mod off;
mod others;
mod rig;
mod weights;
mod wishes;
