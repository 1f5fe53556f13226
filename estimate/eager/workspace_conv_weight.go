package eager

// weightDenseFloat chooses for weight gradients in fp32 and row-major order.
// 616 shapes, 42 leaves; within 10 % for 86 % of them, for 71 % of those held out in
// five-fold cross-validation.
func weightDenseFloat(f *convFacts) convSpace {
	if f.filter != 1 {
		if f.products <= 59<<25 {
			if f.depth <= 64 {
				if f.batch <= 16 {
					if f.tiles <= 8 {
						return copyAll
					}
					return noSpace
				}
				return noSpace
			}
			if f.products <= 1<<27 {
				if f.inBytes <= 7<<16 {
					if f.out <= 24 {
						return noSpace
					}
					if f.filter <= 12 {
						if ratio(f.inBytes, f.weightBytes) <= 0.5 {
							return noSpace
						}
						if f.batch <= 4 {
							return copyAll
						}
						return noSpace
					}
					return copyAll
				}
				if f.outBytes <= 3<<17 {
					if f.rows <= 3584 {
						if f.inBytes <= 5<<19 {
							return partPerImage
						}
						return noSpace
					}
					return noSpace
				}
				if f.inBytes <= 7<<17 {
					return copyAll10Parts
				}
				return copyAll
			}
			if f.inBytes <= 1<<25 {
				if f.depth <= 160 {
					return copyAll
				}
				if f.products <= 17<<26 {
					if f.filter <= 3 {
						return copyAllTiles
					}
					if f.weightBytes <= 3<<18 {
						return copyAll4Parts
					}
					return copyAll
				}
				return copyAllTiles
			}
			return copyAll
		}
		if f.inBytes <= 49<<19 {
			if f.left <= 40 {
				if f.outPixels <= 1024 {
					return copyAllTiles
				}
				return copyAll4Parts
			}
			if ratio(f.inBytes, f.weightBytes) <= 6 {
				return copyAll
			}
			return copyAllTiles
		}
		return copyAllTiles
	}
	if f.rows <= 448 {
		return noSpace
	}
	if !f.strided {
		if f.weightBytes <= 37<<15 {
			if f.batch <= 1 {
				if f.in <= 64 {
					return copyAll
				}
				return copyInWeight
			}
			if f.outPixels <= 1<<13 {
				if f.tiles <= 9 {
					return partPerImage
				}
				if f.batch <= 32 {
					return partPerImage
				}
				if f.in <= 512 {
					return partPerImage
				}
				return copyAll
			}
			if f.tiles <= 1 {
				if f.batch <= 32 {
					return copyAll
				}
				return partPerImage
			}
			return partPerImage
		}
		if f.outBytes <= 7<<21 {
			if f.weightBytes <= 9<<18 {
				if ratio(f.outBytes, f.inBytes) <= 0.29 {
					return copyAll4Parts
				}
				return copyAllTiles
			}
			return copyInOutTiles
		}
		if f.outPixels <= 512 {
			if ratio(f.outBytes, f.weightBytes) <= 10 {
				return copyAll
			}
			return partPerImage
		}
		return partPerImage
	}
	if f.in <= 48 {
		return noSpace
	}
	return copyInOut
}

// weightDenseHalf chooses for weight gradients in 16 bit and row-major order.
// 293 shapes, 23 leaves; within 10 % for 88 % of them, for 69 % of those held out in
// five-fold cross-validation.
func weightDenseHalf(f *convFacts) convSpace {
	if f.filter != 1 {
		if f.depth <= 896 {
			if f.outBytes <= 1<<25 {
				if f.outBytes <= 9<<20 {
					if f.inPixels <= 1<<14 {
						if f.outBytes <= 3<<15 {
							if f.depth <= 384 {
								return noSpace
							}
							if f.out <= 32 {
								return copyAll
							}
							if f.in <= 48 {
								return copyAll
							}
							return copyAll20Parts
						}
						if f.products <= 5<<26 {
							return copyAll
						}
						if f.weightBytes <= 1<<17 {
							return copyAll20Parts
						}
						if f.depth <= 448 {
							return copyAll
						}
						return copyAll4Parts
					}
					return copyAllTiles
				}
				if f.weightBytes <= 1<<18 {
					return copyAll20Parts
				}
				return copyAllTiles
			}
			return copyAll
		}
		if f.filter <= 26 {
			return copyAll
		}
		if ratio(f.outBytes, f.weightBytes) <= 0.5 {
			return copyAll
		}
		if f.products <= 3<<35 {
			if f.filter <= 32 {
				return copyAll4Parts
			}
			if !f.strided {
				if f.outPixels <= 1024 {
					return parts10
				}
				return partPerImage
			}
			return noSpace
		}
		return copyAll20Parts
	}
	if f.inPixels <= 6272 {
		return partPerImage
	}
	if ratio(f.outBytes, f.weightBytes) <= 3000 {
		return copyAll
	}
	if f.dims <= 2 {
		return partPerImage
	}
	return copyTwice
}

// weightLastFloat chooses for weight gradients in fp32 and channels-last order.
// 47 shapes, 6 leaves; within 10 % for 79 % of them, for 51 % of those held out in
// five-fold cross-validation.
func weightLastFloat(f *convFacts) convSpace {
	if f.depth <= 7168 {
		if ratio(f.inBytes, f.weightBytes) <= 25.4 {
			return noSpace
		}
		if f.products <= 1<<30 {
			return copyInOut
		}
		if f.batch <= 32 {
			return noSpace
		}
		return waveTiles
	}
	if f.out <= 128 {
		return copyAll4Parts
	}
	return copyInOut
}

// weightLastHalf chooses for weight gradients in 16 bit and channels-last order.
// 118 shapes, 17 leaves; within 10 % for 59 % of them, for 31 % of those held out in
// five-fold cross-validation.
func weightLastHalf(f *convFacts) convSpace {
	if f.rows <= 3072 {
		if f.in <= 8 {
			return copyInWeight
		}
		if f.rows <= 64 {
			if f.batch <= 2 {
				return noSpace
			}
			return parts20
		}
		return noSpace
	}
	if f.depth <= 8 {
		return copyInWeight
	}
	if f.inPixels <= 6144 {
		if f.tiles <= 8 {
			return noSpace
		}
		if f.tiles <= 16 {
			if f.inBytes <= 1<<22 {
				return noSpace
			}
			return tiles
		}
		if f.in <= 64 {
			if f.batch <= 64 {
				if f.tiles <= 96 {
					if f.outPixels <= 1024 {
						return copyInWeight
					}
					return waveTiles
				}
				return parts10
			}
			return parts20
		}
		return noSpace
	}
	if f.products <= 1<<26 {
		return parts20
	}
	if f.outBytes <= 1<<28 {
		return parts20
	}
	if f.in <= 256 {
		return noSpace
	}
	return parts10
}

// weightGrouped chooses for the weight gradients of grouped convolutions.
// 297 shapes, 28 leaves; within 10 % for 75 % of them, for 45 % of those held out in
// five-fold cross-validation.
func weightGrouped(f *convFacts) convSpace {
	if f.widest <= 96 {
		if f.in <= 128 {
			if f.outPixels <= 512 {
				if f.products <= 1<<26 {
					return noSpace
				}
				return padGroupsPart
			}
			if f.depth <= 448 {
				if f.in <= 120 {
					if f.groups <= 2 {
						if !f.half {
							if f.widest <= 32 {
								return loopGroups
							}
							return padGroups
						}
						return padGroups
					}
					if f.inBytes <= 1<<22 {
						if f.matrix*f.elem <= 768 {
							return loopGroups
						}
						return noSpace
					}
					if f.inBytes <= 7<<22 {
						return loopGroups
					}
					return noSpace
				}
				return padGroups
			}
			return padGroupsTiles
		}
		if f.widest <= 48 {
			if f.inBytes <= 1<<25 {
				if ratio(f.outBytes, f.weightBytes) <= 4.5 {
					return padGroups
				}
				if f.matrix*f.elem <= 6144 {
					if f.matrix*f.elem <= 1<<12 {
						return padGroups
					}
					return loopGroups
				}
				if f.rows <= 1<<12 {
					return padGroupsTiles
				}
				return padGroupsPart
			}
			return padGroups
		}
		if !f.half {
			if ratio(f.outBytes, f.inBytes) <= 0.02 {
				return noSpace
			}
			return padGroups
		}
		return loopGroups
	}
	if ratio(f.inBytes, f.weightBytes) <= 14 {
		if ratio(f.outBytes, f.weightBytes) <= 2 {
			if !f.channelsLast {
				return loopGroups
			}
			return loopGroupsNoWeight
		}
		if f.widest <= 192 {
			return noSpace
		}
		if f.in <= 128 {
			return noSpace
		}
		if f.outBytes <= 1<<24 {
			return loopGroups
		}
		return loopGroups4Parts
	}
	if f.inPixels <= 224 {
		return loopGroups20Parts
	}
	return loopGroups
}
